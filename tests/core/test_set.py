"""``set_`` points a tensor at other memory, and refuses what PyTorch refuses."""

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")

CALLS = {
    "nothing": lambda m, x, t: t.set_(),
    "a tensor": lambda m, x, t: t.set_(x),
    "a tensor by name": lambda m, x, t: t.set_(source=x),
    "a slice": lambda m, x, t: t.set_(x[2:], 0, (2, 2), (1, 2)),
    "a storage": lambda m, x, t: t.set_(x.untyped_storage()),
    "a typed storage": lambda m, x, t: t.set_(x.storage()),
    "a window": lambda m, x, t: t.set_(x.untyped_storage(), 1, (2, 2), (1, 2)),
    "no strides": lambda m, x, t: t.set_(x.untyped_storage(), 1, (2, 2)),
    "another dtype's bytes": lambda m, x, t: m.zeros(1, dtype=m.int32).set_(
        x.untyped_storage()
    ),
    "another dtype": lambda m, x, t: m.zeros(1, dtype=m.int32).set_(x),
    "another typed storage": lambda m, x, t: m.zeros(1, dtype=m.int32).set_(
        x.storage()
    ),
    "a negative offset": lambda m, x, t: t.set_(x.untyped_storage(), -1, (2,), (1,)),
    "unequal lengths": lambda m, x, t: t.set_(x.untyped_storage(), 0, (2,), (1, 1)),
    "a negative stride": lambda m, x, t: t.set_(x.untyped_storage(), 0, (2,), (-1,)),
    "a tensor that needs a gradient": lambda m, x, t: t.requires_grad_().set_(x),
    "an offset far beyond": lambda m, x, t: t.set_(
        x.untyped_storage(), 2**62, (2,), (1,)
    ),
    "a tensor's offset far beyond": lambda m, x, t: t.set_(x, 2**61, (2,), (1,)),
    "a size far beyond": lambda m, x, t: t.set_(x.untyped_storage(), 0, (2**61,), (1,)),
    "a size without strides far beyond": lambda m, x, t: t.set_(
        x.untyped_storage(), 0, (2**63 - 1,)
    ),
    "a stride far beyond": lambda m, x, t: t.set_(
        x.untyped_storage(), 0, (2,), (2**62,)
    ),
    "no elements far beyond": lambda m, x, t: t.set_(
        x.untyped_storage(), 2**62, (0,), (1,)
    ),
    "one element seen often": lambda m, x, t: t.set_(
        x.untyped_storage(), 0, (3,), (0,)
    ),
    "a number": lambda m, x, t: t.set_(3),
}


def outcome(m, call):
    x = m.arange(6.0)
    try:
        result = call(m, x, m.zeros(2))
    except (RuntimeError, TypeError) as error:
        return type(error), str(error).split("\n")[0][:60]
    return result.tolist(), result.stride(), result.storage_offset()


@pytest.mark.parametrize("case", CALLS)
def test_every_form_gives_or_refuses_what_pytorch_does(case):
    assert outcome(rl, CALLS[case]) == outcome(torch, CALLS[case])


def test_both_share_their_memory_from_then_on():
    x, t = rl.arange(6.0), rl.zeros(2)
    assert t.set_(x) is t
    assert t.is_set_to(x)
    t[0] = 9.0
    assert x[0].item() == 9.0


def test_a_window_beyond_the_end_makes_the_storage_larger():
    x = rl.arange(6.0)
    t = rl.zeros(2).set_(x, 4, (4,), (1,))
    assert t[:2].tolist() == [4.0, 5.0]
    assert x.untyped_storage().nbytes() == 32


def test_a_saved_tensor_that_is_set_elsewhere_is_noticed():
    w, x = rl.ones(3, requires_grad=True), rl.full((3,), 2.0)
    y = (w * x).sum()
    x.set_(rl.full((3,), 5.0))
    try:
        y.backward()
    except RuntimeError as error:
        assert "modified by an inplace operation" in str(error)
    else:
        assert w.grad.tolist() == [2.0, 2.0, 2.0]


def test_tracing_sees_what_points_a_tensor_elsewhere():
    from rushlight.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Log(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    x, t = rl.arange(6.0), rl.zeros(2)
    with Log():
        t.set_(x)
        t.set_(x.untyped_storage(), 1, (2,), (2,))
    assert [name for name in seen if "set_" in name] == ["aten.set_.source_Tensor"] * 2
    assert t.tolist() == [1.0, 3.0]


def test_a_saved_tensor_that_points_elsewhere_is_refused():
    w = rl.ones(2, requires_grad=True)
    x = rl.arange(2.0)
    y = w * x
    x.set_(rl.zeros(2))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
