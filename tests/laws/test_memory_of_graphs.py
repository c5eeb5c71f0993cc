"""A graph that nobody takes backward goes with its last tensor, without a collector."""

import gc

import pytest

import rushlight as rl

torch = pytest.importorskip("torch", reason="the database of operators is PyTorch's")

from tests.fuzz import draw  # noqa: E402  (after what the fuzzer's tools need)
from tests.fuzz.specs import Side  # noqa: E402

CALLS = 50
OPERATORS = [
    (index, info.inplace_variant.__name__)
    for index, (info, _) in enumerate(draw.operators())
    if hasattr(info.inplace_variant, "__name__") and info.supports_autograd
]


def nodes_left_by(call):
    """How many of the graph's nodes and tensors wait for the collector after calls."""
    gc.collect(0)
    gc.freeze()  # what was there is not looked through again
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        for _ in range(CALLS):
            call()
        gc.collect()
        kinds = (rl.Tensor, rl.autograd.graph.Node)
        return sum(isinstance(found, kinds) for found in gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
        gc.unfreeze()


@pytest.mark.filterwarnings("ignore")
def test_a_write_to_a_view_leaves_no_cycle_of_any_operator():
    left, written = {}, set()
    gc.collect()
    for index, name in OPERATORS:
        for args, kwargs in draw.samples(index, "float32")[:1]:
            side = Side(rl)
            (given, *rest), options = side.build(args), side.build(kwargs)

            def call(name=name, given=given, rest=rest, options=options):
                view = (given * 1)[...].view_as(given)
                getattr(view, name)(*rest, **options)
                written.add(name) if view.grad_fn is not None else None

            try:
                call()
            except (RuntimeError, TypeError, AttributeError, NotImplementedError):
                continue
            found = nodes_left_by(call)
            if found:
                left[name] = found
    assert not left
    assert len(written) > 90


def written_by_function():
    class Doubled(rl.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            ctx.save_for_backward(x)
            return x

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    leaf = rl.ones(4, requires_grad=True)
    return lambda: Doubled.apply((leaf * 1)[:2])


CHAINS = {
    "an activation in place": lambda x: rl.nn.functional.relu(x.view(4), inplace=True),
    "two writes": lambda x: x[:2].exp_().sigmoid_(),
    "a write to the base after": lambda x: (x[:2].exp_(), x.tanh_()),
    "a view of a view": lambda x: x.view(2, 2)[0].sqrt_(),
    "a real part": lambda x: rl.complex(x, x).real.exp_(),
    "a turned matrix": lambda x: x.view(2, 2).t_().exp_(),
}


@pytest.mark.parametrize("name", CHAINS)
def test_writes_in_a_row_leave_no_cycle(name):
    leaf = rl.ones(4, requires_grad=True)
    assert nodes_left_by(lambda: CHAINS[name](leaf * 1)) == 0


def test_a_function_that_saves_the_view_it_wrote_to_leaves_no_cycle():
    call = written_by_function()
    call()
    gc.collect()
    assert nodes_left_by(call) == 0


@pytest.mark.parametrize("name", ["exp_", "sigmoid_", "tanh_", "sqrt_"])
def test_second_gradients_go_through_what_was_written_to_a_view(name):
    found = []
    for m in (rl, torch):
        leaf = m.tensor([[0.5, 1.0], [1.5, 2.0]], dtype=m.float64, requires_grad=True)
        base = leaf * leaf
        getattr(base.t()[0], name)()
        (first,) = m.autograd.grad((base**2).sum(), leaf, create_graph=True)
        (second,) = m.autograd.grad((first**2).sum(), leaf)
        found.append((first.tolist(), second.tolist()))
    for ours, theirs in zip(*found, strict=True):
        assert ours == [pytest.approx(row, rel=1e-12) for row in theirs]
