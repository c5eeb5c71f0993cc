"""Batches and tangents of single rows, of parts of memory and of checks that look for them."""

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def test_a_layer_of_one_row_at_a_time_is_the_layer_of_all_rows():
    weights, bias = rl.randn(4, 3, 2), rl.randn(4, 3)
    for x in (rl.randn(2), rl.randn(5, 2), rl.randn(6, 5, 2)):
        run = rl.func.vmap(lambda w, b, x=x: rl.nn.functional.linear(x, w, b))
        rows = [rl.nn.functional.linear(x, w, b) for w, b in zip(weights, bias)]
        rl.testing.assert_close(run(weights, bias), rl.stack(rows))
    many = rl.randn(4, 2)
    run = rl.func.vmap(rl.nn.functional.linear)
    rows = [rl.nn.functional.linear(x, w, b) for x, w, b in zip(many, weights, bias)]
    rl.testing.assert_close(run(many, weights, bias), rl.stack(rows))


def test_a_tangent_of_a_part_of_memory_reaches_views_beyond_the_part():
    found = []
    for t in (rl, torch):
        with t.autograd.forward_ad.dual_level():
            part = t.zeros(10)[:4]
            tangent = t.tensor([1.0, 2.0, 3.0, 4.0])
            dual = t.autograd.forward_ad.make_dual(part, tangent)
            wider = t.as_strided(dual, (6,), (1,), 0)
            seen = t.autograd.forward_ad.unpack_dual(wider * 2).tangent
            found.append(seen.tolist())
    assert found[0] == found[1]


def test_a_check_of_batched_tangents_finds_a_rule_without_batches():
    class Alone(rl.autograd.Function):
        @staticmethod
        def forward(x):
            return x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def jvp(ctx, tangent):
            return rl.tensor((tangent * 2).tolist(), dtype=rl.float64)

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    x = rl.ones(2, dtype=rl.float64, requires_grad=True)
    options = {"check_forward_ad": True, "check_backward_ad": False}
    assert rl.autograd.gradcheck(Alone.apply, x, **options)
    with pytest.raises(RuntimeError):
        rl.autograd.gradcheck(
            Alone.apply, x, check_batched_forward_grad=True, **options
        )
