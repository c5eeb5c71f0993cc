"""LBFGS asks for losses and gradients where PyTorch's does, whatever it is told."""

import random

import pytest

import rushlight as rl

torch = pytest.importorskip("torch", reason="the oracle is not installed")

LOSSES = [0.0, 1.0, 1.0, 2.0, 2.5, -1.0, -3.0, 1 - 1e-5, 1 - 1e-3]
SLOPES = [-2.0, -1.0, -1.0, -0.5, -0.1, 0.0, 0.05, 0.5, 1.0, 3.0]


def course(m, seed):
    """The places that two steps ask at, and what they count.

    The answers are drawn: few different numbers, so that ties are met, and of no
    function, so that a search meets brackets that no smooth valley has.
    """
    draw = random.Random(seed)
    sizes = draw.choice([[1], [1, 1], [2, 1]])
    parameters = [
        m.tensor([draw.choice([-1.0, 0.0, 2.0]) for _ in range(size)], dtype=m.float64)
        for size in sizes
    ]
    optimizer = m.optim.LBFGS(
        [each.requires_grad_() for each in parameters],
        lr=draw.choice([0.1, 1, 1, 5]),
        max_iter=draw.choice([2, 4, 8]),
        max_eval=draw.choice([None, 5, 12]),
        tolerance_grad=draw.choice([1e-7, 0.5, 1.0]),
        tolerance_change=draw.choice([1e-9, 1e-9, 0.1, 0.5]),
        history_size=draw.choice([1, 2, 100]),
        line_search_fn=draw.choice([None] + ["strong_wolfe"] * 4),
    )
    places = []
    drift = draw.choice([0, 0, -0.3])

    def closure():
        places.extend(n for each in parameters for n in each.detach().tolist())
        for each in parameters:
            each.grad = m.tensor([draw.choice(SLOPES) for _ in each], dtype=m.float64)
        loss = draw.choice(LOSSES) + drift * len(places)
        return m.tensor(loss, dtype=m.float64)

    losses = [float(optimizer.step(closure)) for _ in range(2)]
    state = optimizer.state[parameters[0]]
    return places, losses, [state["func_evals"], state["n_iter"]]


@pytest.mark.parametrize("first", range(0, 300, 50))
def test_a_search_that_is_told_random_losses_asks_at_pytorch_s_places(first):
    for seed in range(first, first + 50):
        ours, theirs = course(rl, seed), course(torch, seed)
        assert ours[1:] == theirs[1:], seed
        assert ours[0] == pytest.approx(theirs[0], rel=1e-7, abs=1e-7, nan_ok=True), (
            seed
        )
