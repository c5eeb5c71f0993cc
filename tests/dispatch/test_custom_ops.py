"""Operators made of Python functions: gradients, lists, keywords, writes."""

import subprocess
import sys
import warnings

import pytest

import rushlight as rl
from rushlight import Tensor
from rushlight.dispatch.custom_operators import custom_op
from rushlight.dispatch.library import Library, _scoped_library

SEEN = {}


@custom_op("tests_custom::scaled", mutates_args=())
def scaled(x: Tensor, a: float = 2.0, *, b: int = 3) -> Tensor:
    return rl.tensor(x.numpy() * a * b)


@custom_op("tests_custom::product", mutates_args=())
def product(x: Tensor, y: Tensor) -> Tensor:
    return rl.tensor(x.numpy() * y.numpy())


@custom_op("tests_custom::multiples", mutates_args=())
def multiples(xs: list[Tensor], n: int) -> list[Tensor]:
    return [rl.tensor(x.numpy() * n) for x in xs]


@custom_op("tests_custom::raise_", mutates_args={"x"})
def raise_(x: Tensor, by: float) -> None:
    x.numpy()[...] += by


@custom_op("tests_custom::same", mutates_args=())
def same(x: Tensor) -> Tensor:
    return x


def _save_product(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def _product_backward(ctx, grad):
    SEEN["product"] = ctx.needs_input_grad
    x, y = ctx.saved_tensors
    needs = ctx.needs_input_grad
    return grad * y if needs[0] else None, grad * x if needs[1] else None


def _save_number(ctx, inputs, output):
    ctx.n = inputs[1]
    SEEN["output"] = output


def _multiples_backward(ctx, grads):
    SEEN["multiples"] = ctx.needs_input_grad
    return [None if g is None else g * ctx.n for g in grads], None


product.register_autograd(_product_backward, setup_context=_save_product)
multiples.register_autograd(_multiples_backward, setup_context=_save_number)


def leaf(*numbers):
    return rl.tensor(numbers, dtype=rl.float64, requires_grad=True)


@pytest.mark.parametrize("wanted", [(True, False), (False, True), (True, True)])
def test_a_formula_is_told_of_its_own_arguments(wanted):
    x, y = leaf(1, 2), leaf(3, 4)
    for one, flag in zip((x, y), wanted, strict=True):
        one.requires_grad_(flag)
    product(x, y).sum().backward()
    assert SEEN["product"] == wanted
    assert (x.grad is not None, y.grad is not None) == wanted
    assert rl.autograd.gradcheck(product, (leaf(1, 2), leaf(3, 4)))
    assert rl.autograd.gradgradcheck(product, (leaf(1, 2), leaf(3, 4)))


def test_lists_are_lists_to_the_formula():
    a, b = leaf(1, 2), rl.ones(3)
    results = multiples([a, b], 4)
    assert [r.requires_grad for r in results] == [True, True]
    assert type(SEEN["output"]) is list
    (found,) = rl.autograd.grad(results[0].sum(), a)
    assert found.tolist() == [4, 4]
    assert SEEN["multiples"] == ([True, False], False)


def test_keyword_only_arguments_are_passed_by_name_and_to_the_context():
    x = leaf(1, 2)
    assert scaled(x.detach(), 3.0, b=2).tolist() == [6, 12]
    with pytest.raises(RuntimeError, match="through tests_custom.scaled.default but"):
        scaled(x).sum().backward()

    def keep(ctx, inputs, keyword_only_inputs, output):
        ctx.factor = inputs[1] * keyword_only_inputs["b"]

    scaled.register_autograd(
        lambda ctx, grad: (grad * ctx.factor, None), setup_context=keep
    )
    (found,) = rl.autograd.grad(scaled(x, b=5).sum(), x)
    assert found.tolist() == [10, 10]
    with rl.no_grad():
        assert not scaled(x).requires_grad


def test_writes_are_counted_though_numpy_made_them():
    x = leaf(1, 2)
    value = x.exp()
    raise_(value.detach(), 1.0)
    assert value._version == 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        value.sum().backward()


def test_results_are_no_arguments():
    for x in (rl.ones(2), leaf(1, 2)):
        with pytest.raises(RuntimeError, match="must not also be an input"):
            same(x)


def test_a_wrong_number_of_gradients_is_refused():
    with _scoped_library("tests_custom_more", "FRAGMENT") as library:
        library.define("one(Tensor[] xs) -> Tensor")
        library.impl("one", lambda xs: xs[0] * 2, "CPU")
        for given, words in (
            (lambda grad: (grad, grad), "2 gradients for 1 inputs"),
            (lambda grad: grad, "not a list of as many"),
        ):
            rl.library.register_autograd(
                "tests_custom_more::one",
                lambda ctx, grad, given=given: given(grad),
                lib=library,
            )
            with pytest.raises(RuntimeError, match=words):
                rl.ops.tests_custom_more.one([leaf(1), leaf(2)]).sum().backward()


def kinds_of_calls(module, library):
    """What a kernel without a place for ``a`` is given."""
    seen = []
    library.define("f(Tensor x, int a=1, *, int b=2, Tensor? c=None) -> Tensor")

    def short(x, **named):
        seen.append(sorted(named))
        return x + 1

    library.impl("f", short, "CPU")
    call = module.ops.tests_custom_fit.f
    x = module.ones(2)
    call(x), call(x, 1, b=2), call(x, b=5), call(x, c=x)
    with pytest.raises(TypeError):
        call(x, 3)
    library._destroy()
    return seen


def test_kernels_get_keywords_by_name_and_no_defaults_that_they_have_no_place_for():
    found = kinds_of_calls(rl, Library("tests_custom_fit", "FRAGMENT"))
    assert found == [[], [], ["b"], ["c"]]
    torch = pytest.importorskip("torch")
    theirs = torch.library.Library("tests_custom_fit", "FRAGMENT")
    assert kinds_of_calls(torch, theirs) == found


FAULTS = {
    "none": {"schema": 1, "autograd": 1, "fake": 1, "recorded": 1},
    "mutates": {"schema": 0, "autograd": 1, "fake": 1},
    "shape": {"schema": 1, "autograd": 1, "fake": 0},
    "no formula": {"schema": 1, "fake": 1, "recorded": 0},
}
CHECKS = {
    "schema": "test_schema",
    "autograd": "test_autograd_registration",
    "fake": "test_faketensor",
    "recorded": "test_aot_dispatch_dynamic",
}


def cropping(lib, fault):
    """An operator from outside, with something wrong about it."""

    def crop(x, n):
        if fault == "mutates":
            x.add_(1)
        return x[..., :n].clone()

    def back(ctx, grad):
        return lib.nn.functional.pad(grad, (0, ctx.width - grad.shape[-1])), None

    def note(ctx, inputs, output):
        ctx.width = inputs[0].shape[-1]

    crop.__annotations__ = {"x": lib.Tensor, "n": int, "return": lib.Tensor}
    name = f"checked::crop_{fault.replace(' ', '_')}"
    op = lib.library.custom_op(name, crop, mutates_args=())
    wide = 1 if fault == "shape" else 0
    op.register_fake(lambda x, n: x.new_empty(*x.shape[:-1], n + wide))
    if fault != "no formula":
        op.register_autograd(back, setup_context=note)
    return op


@pytest.mark.parametrize("fault", FAULTS)
def test_opcheck_finds_what_pytorchs_finds(fault):
    torch = pytest.importorskip("torch")
    for lib in (rl, torch):
        op = cropping(lib, fault)
        args = (lib.ones(2, 5).requires_grad_(), 3)
        found = lib.library.opcheck(op, args, raise_exception=False)
        assert set(found) == set(CHECKS.values())
        for short, passes in FAULTS[fault].items():
            assert (found[CHECKS[short]] == "SUCCESS") == bool(passes), (lib, short)
        if fault == "mutates":
            with pytest.raises(
                Exception, match="test_schema failed with Argument x is not"
            ):
                lib.library.opcheck(op, args, test_utils="test_schema")


def test_opcheck_refuses_checks_that_there_are_not():
    with pytest.raises(ValueError, match="expected test_utils to be a subset"):
        rl.library.opcheck(rl.ops.aten.sin.default, (rl.ones(1),), test_utils="other")


def test_kernels_of_triton_are_refused():
    with pytest.raises(RuntimeError, match="Triton's kernels cannot run here"):
        rl.library.triton_op("checked::none", mutates_args=())


def test_a_kernel_of_one_device_replaces_the_one_for_all_without_a_warning(tmp_path):
    program = """
import warnings
warnings.simplefilter("error")
import rushlight as rl
@rl.library.custom_op("law_quiet::twice", mutates_args=())
def twice(x: rl.Tensor) -> rl.Tensor:
    return x * 2
twice.register_fake(lambda x: rl.empty_like(x))
twice.register_kernel("cpu", lambda x: x + x)
print(twice(rl.ones(1)).item())
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.stdout == "2.0\n", done.stderr


def test_an_operator_without_a_function_for_shapes_is_neither_exported_nor_meta():
    @rl.library.custom_op("law_shapes::twice", mutates_args=())
    def twice(x: rl.Tensor) -> rl.Tensor:
        return x * 2

    @rl.library.custom_op("law_shapes::doubled", mutates_args=("x",))
    def doubled(x: rl.Tensor) -> None:
        x.mul_(2)

    class Model(rl.nn.Module):
        def forward(self, x):
            return twice(x) + 1

    for call in (
        lambda: twice(rl.ones(2, device="meta")),
        lambda: rl.export.export(Model(), (rl.ones(2),)),
    ):
        with pytest.raises(RuntimeError, match="There was no fake impl registered for"):
            call()
    assert doubled(rl.ones(2, device="meta")) is None
    twice.register_fake(lambda x: rl.empty_like(x))
    program = rl.export.export(Model(), (rl.ones(2),))
    assert program.module()(rl.ones(2)).tolist() == [3, 3]


def test_formulas_of_an_operator_replace_the_refusal_there_without_a_word(
    nothing_said_yet,
):
    @rl.library.custom_op("silent::twice", mutates_args=())
    def twice(x: rl.Tensor) -> rl.Tensor:
        return x * 2

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        twice.register_autograd(lambda ctx, grad: grad * 2)
        twice.register_fake(lambda x: rl.empty_like(x))
    x = rl.ones(3, requires_grad=True)
    twice(x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 2.0]
