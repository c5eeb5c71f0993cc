"""Operators and kernels from outside use what built-in ones use."""

import gc

import pytest

import rushlight as rl
from rushlight.codegen.language import select
from rushlight.dispatch.dispatcher import FOREIGN_KERNELS
from rushlight.dispatch.keys import DispatchKey, KeySet
from rushlight.dispatch.library import _excluded, _scoped_library
from rushlight.io.interop import storage_buffer
from rushlight.library import Library, custom_op, fallthrough_kernel, register_autograd


@pytest.fixture
def lib():
    with _scoped_library("outside", "DEF") as library:
        yield library


def test_an_operator_from_outside_has_a_kernel_a_meta_function_and_a_gradient(lib):
    lib.define("leaky(Tensor x, Scalar slope=0.5) -> Tensor")
    lib.pointwise("leaky", lambda x, slope: select(x > 0, x, x * slope))
    lib.derivative(
        "leaky",
        lambda needs, grad, x, slope: rl.where(x > 0, grad, grad * slope),
        saved=("x", "slope"),
        inputs=("x",),
    )
    x = rl.tensor([-2.0, 4.0], requires_grad=True)
    y = rl.ops.outside.leaky(x)
    assert y.tolist() == [-1.0, 4.0]
    assert type(y.grad_fn).__name__ == "Node" and "LeakyBackward0" in repr(y.grad_fn)
    y.sum().backward()
    assert x.grad.tolist() == [0.5, 1.0]
    meta = rl.ops.outside.leaky(rl.empty(2, 3, device="meta"))
    assert meta.device.type == "meta" and meta.shape == (2, 3)


def test_gradcheck_accepts_an_operator_from_outside(lib):
    lib.define("cube(Tensor x) -> Tensor")
    lib.pointwise("cube", lambda x: x * x * x)
    lib.derivative("cube", lambda needs, grad, x: 3 * grad * x * x, saved=("x",))
    x = rl.rand(4, dtype=rl.float64, requires_grad=True)
    assert rl.autograd.gradcheck(rl.ops.outside.cube, (x,))
    assert rl.autograd.gradgradcheck(rl.ops.outside.cube, (x,))


def test_a_decomposition_is_seen_through_by_autograd(lib):
    lib.define("twice(Tensor x) -> Tensor")
    lib.impl("twice", lambda x: x + x, "CompositeImplicitAutograd")
    x = rl.ones(3, requires_grad=True)
    rl.ops.outside.twice(x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 2.0]


def test_register_autograd_takes_a_setup_and_a_backward():
    @custom_op("outside2::square", mutates_args=())
    def square(x: rl.Tensor) -> rl.Tensor:
        return x * x

    register_autograd(
        "outside2::square",
        lambda ctx, grad: grad * 2 * ctx.saved_tensors[0],
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    x = rl.tensor([3.0], requires_grad=True)
    square(x).backward()
    assert x.grad.tolist() == [6.0]
    square._lib._destroy()


def test_what_a_library_registered_goes_away_with_it():
    with _scoped_library("passing", "DEF") as library:
        library.define("f(Tensor x) -> Tensor")
        assert rl.ops.passing.f.name == "f"
    gc.collect()
    with pytest.raises(AttributeError, match="'passing' object has no attribute 'f'"):
        assert rl.ops.passing.f is None


def test_the_same_schema_twice_is_refused(lib):
    lib.define("g(Tensor x) -> Tensor")
    with pytest.raises(RuntimeError, match="multiple times"):
        lib.define("g(Tensor x) -> Tensor")


def test_an_argument_called_out_is_one_like_the_others(lib):
    lib.define("into(Tensor x, *, Tensor(a!) out) -> Tensor(a!)")
    lib.impl("into", lambda x, *, out: out.copy_(x), "CompositeExplicitAutograd")
    out = rl.zeros(2)
    assert rl.ops.outside.into(rl.ones(2), out=out) is out
    assert out.tolist() == [1.0, 1.0]
    for given in ({}, {"out": None}, {"out": out, "requires_grad": True}):
        with pytest.raises(TypeError, match=r"into\(\)"):
            rl.ops.outside.into(rl.ones(2), **given)


def test_a_call_without_a_kernel_says_which_backend_lacks_one(lib):
    lib.define("h(Tensor x) -> Tensor")
    with pytest.raises(
        NotImplementedError, match="outside::h.*'CPU' backend"
    ) as caught:
        rl.ops.outside.h(rl.ones(1))
    assert "Library.impl('h', function, 'CPU')" in str(caught.value)


def test_kernels_with_keysets_redispatch_below_their_key(lib):
    seen = []
    lib.define("k(Tensor x) -> Tensor")
    lib.impl("k", lambda x: x + 1, "CPU")

    def above(keyset, x):
        seen.append(keyset.highest())
        return rl.ops.outside.k.default.redispatch(
            keyset.below(DispatchKey.Autograd), x
        )

    lib.impl("k", above, "Autograd", with_keyset=True)
    assert rl.ops.outside.k(rl.ones(1, requires_grad=True)).item() == 2.0
    assert seen == [DispatchKey.Autograd]


def test_excluded_keys_are_passed_by_in_this_thread(lib):
    lib.define("e(Tensor x) -> Tensor")
    lib.impl("e", lambda x: x + 1, "CPU")
    lib.impl("e", lambda x: x + 100, "Autograd")
    x = rl.ones(1, requires_grad=True)
    assert rl.ops.outside.e(x).item() == 101.0
    with _excluded(DispatchKey.Autograd):
        assert rl.ops.outside.e(x.detach()).item() == 2.0


def test_fallthrough_lets_calls_pass(lib):
    lib.define("p(Tensor x) -> Tensor")
    lib.impl("p", lambda x: x - 1, "CPU")
    lib.impl("p", fallthrough_kernel, "Autograd")
    assert rl.ops.outside.p(rl.ones(1, requires_grad=True)).item() == 0.0


def test_key_sets_keep_order_and_count_widths_beyond_an_int():
    keys = KeySet.of(
        DispatchKey.CPU, DispatchKey.Autograd, DispatchKey.PythonDispatcher
    )
    assert list(keys) == [
        DispatchKey.PythonDispatcher,
        DispatchKey.Autograd,
        DispatchKey.CPU,
    ]
    assert keys.below(DispatchKey.Autograd) == KeySet.of(DispatchKey.CPU)


# -- a backend from outside ------------------------------------------------------------

CALLS = []


def host(tensor):
    """The toy device's memory as a CPU tensor: its bytes lie in host memory."""
    if tensor.device.type == "cpu":
        return tensor
    flat = rl.frombuffer(storage_buffer(tensor.untyped_storage()), dtype=tensor.dtype)
    return flat.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())


def on_toy(result):
    """A CPU result's values in fresh memory of the toy device."""
    fresh = rl.empty(result.shape, dtype=result.dtype, device="privateuseone")
    host(fresh).copy_(result)
    return fresh


def toy_kernel(name):
    packet = getattr(rl.ops.call, name)

    def kernel(*args):
        CALLS.append(name)
        return on_toy(
            packet(
                *[
                    host(a) if isinstance(a, rl.Tensor) else a
                    for a in args
                    if a is not None
                ]
            )
        )

    return kernel


def toy_copy(self, src, non_blocking=False):
    CALLS.append("copy_")
    host(self).copy_(host(src))
    return self


def toy_fill(self, value):
    CALLS.append("fill_")
    host(self).fill_(value)
    return self


@pytest.fixture
def toy():
    CALLS.clear()
    library = Library("aten", "IMPL", "PrivateUse1")
    for name in ("neg", "exp", "relu", "mm", "sqrt", "abs", "tanh", "sigmoid"):
        library.impl(name, toy_kernel(name))
    for name in ("mul.Tensor", "div.Tensor", "maximum"):
        library.impl(name, toy_kernel(name.split(".")[0]))
    for name in ("add.Tensor", "sub.Tensor"):
        base = name.split(".")[0]
        library.impl(
            name,
            lambda a, b, alpha, base=base: (
                CALLS.append(base),
                on_toy(
                    getattr(rl, base)(
                        host(a), host(b) if isinstance(b, rl.Tensor) else b, alpha=alpha
                    )
                ),
            )[1],
        )
    library.impl("sum", lambda self, dtype: on_toy(host(self).sum()))
    library.impl("copy_", toy_copy)
    library.impl("fill_", toy_fill)
    yield library
    library._destroy()


def test_a_toy_backend_computes_through_the_dispatcher(toy):
    a = rl.tensor([[1.0, 2.0], [3.0, 4.0]]).to("privateuseone")
    b = (a + a) * 2.0
    assert b.device.type == "privateuseone"
    assert b.cpu().tolist() == [[4.0, 8.0], [12.0, 16.0]]
    assert rl.mm(a, b).cpu().tolist() == [[28.0, 40.0], [60.0, 88.0]]
    assert {"add", "mul", "mm", "copy_"} <= set(CALLS)


def test_autograd_works_on_a_toy_backend_without_its_help(toy):
    a = rl.tensor([1.0, -2.0]).to("privateuseone").requires_grad_()
    (a * a).sum().backward()
    assert a.grad.device.type == "privateuseone"
    assert a.grad.cpu().tolist() == [2.0, -4.0]


def test_views_need_no_kernel_of_the_backend(toy):
    a = rl.tensor([[1.0, 2.0], [3.0, 4.0]]).to("privateuseone")
    assert a.t()[0].cpu().tolist() == [1.0, 3.0]


def test_an_operator_that_the_toy_lacks_names_it(toy):
    a = rl.ones(2).to("privateuseone")
    with pytest.raises(NotImplementedError, match="aten::cos.*PrivateUse1"):
        rl.cos(a)


def test_a_fallback_serves_every_operator_of_a_key():
    library = Library("_", "IMPL", "PrivateUse1")

    def through_the_host(op, *args):
        return on_toy(op(*[host(a) if isinstance(a, rl.Tensor) else a for a in args]))

    library.impl("aten::copy_", toy_copy)
    library.fallback(through_the_host)
    try:
        a = rl.tensor([0.0, 1.0]).to("privateuseone")
        assert rl.cos(a).cpu().tolist()[0] == 1.0
    finally:
        library._destroy()


@pytest.mark.parametrize("destroyed", ["_destroy", "scoped"])
def test_compositions_with_plans_hear_of_kernels_of_operators_in_them(destroyed):
    x, calls = rl.randn(3, 4), []
    wanted = [rl.softmax(x, 1).tolist() for _ in range(4)][-1]

    def kernel(x, dim, half_to_float):
        calls.append(dim)
        return rl.zeros_like(x)

    with _scoped_library("aten", "IMPL") as library:
        library.impl("_softmax", kernel, "CPU")
        for _ in range(4):
            assert rl.softmax(x, 1).sum().item() == 0
        if destroyed == "_destroy":
            library._destroy()
            assert rl.softmax(x, 1).tolist() == wanted
    assert calls == [1] * 4
    assert [rl.softmax(x, 1).tolist() for _ in range(4)] == [wanted] * 4


def test_plans_hear_of_fallbacks_for_all_operators():
    x, calls = rl.randn(3, 4), []
    wanted = [rl.softmax(x, 1).tolist() for _ in range(4)][-1]

    def fallback(keys, op, *args):
        calls.append(op.name)
        return op.redispatch(keys.below(DispatchKey.ADInplaceOrView), *args)

    with _scoped_library("_", "IMPL") as library:
        library.fallback(fallback, "ADInplaceOrView", with_keyset=True)
        for _ in range(4):
            assert rl.softmax(x, 1).tolist() == wanted
    assert calls.count("_softmax") == 4


@pytest.mark.parametrize("key, counted", [("AutocastCPU", False), ("CPU", True)])
def test_casts_leave_the_plans_of_what_they_stand_above(key, counted):
    """Whoever used autocast once keeps the launches of compositions of products."""
    with _scoped_library("aten", "IMPL") as library:
        library.impl("_lstm_sequence", lambda *args: None, key)
        found = rl.ops.aten._lstm_sequence.default in FOREIGN_KERNELS
    assert found == counted


def test_libraries_are_given_operators_by_decorators(lib):
    @rl.library.define(lib, "thrice(Tensor x) -> Tensor")
    def thrice(x):
        return x * 3

    lib.define("more.by(Tensor x, int n) -> Tensor")

    @rl.library.impl(lib, "more.by", "CompositeExplicitAutograd")
    def more(x, n):
        return x + n

    ops = getattr(rl.ops, lib.ns)
    assert ops.thrice(rl.ones(1)).item() == 3 and thrice(2) == 6
    assert ops.more.by(rl.ones(1), 4).item() == 5 and more(1, 2) == 3
    lib.define("half(Tensor x) -> Tensor")
    assert rl.library.impl(f"{lib.ns}::half", ("CPU", "meta"), lambda x: x / 2)
    assert ops.half(rl.ones(1)).item() == 0.5
    with pytest.raises(ValueError, match="unknown device type 'abacus'"):
        rl.library.impl(f"{lib.ns}::half", "abacus", lambda x: x)


TAGGED = """
    add.Tensor add_.Tensor add.out exp.default where.self rand.default bernoulli.default
    nonzero.default sum.dim_IntList linear.default
""".split()
# What PyTorch says of an operator's place in its core, and of memory: not declared here.
_NOT_SAID = {"core", "maybe_aliasing_or_mutating", "inplace_view"}


@pytest.mark.parametrize("name", TAGGED)
def test_what_can_be_said_of_an_operator_is_what_pytorch_says(name):
    torch = pytest.importorskip("torch")

    def said(ops):
        packet, overload = name.split(".")
        tags = getattr(getattr(ops.aten, packet), overload).tags
        return {tag.name for tag in tags} - _NOT_SAID

    assert said(rl.ops) == said(torch.ops)


def test_tags_of_an_operator_from_outside_are_those_that_it_was_defined_with(lib):
    lib.define("drawn(Tensor x) -> Tensor", tags=rl.Tag.nondeterministic_seeded)
    lib.define("plain(Tensor x) -> Tensor")
    assert rl.ops.outside.drawn.default.tags == [rl.Tag.nondeterministic_seeded]
    assert rl.ops.outside.plain.default.tags == []
