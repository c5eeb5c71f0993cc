"""A call that follows a plan is the call without one, whatever else is changed."""

import re

import numpy as np
import pytest

import rushlight as rl
from rushlight.dispatch.launch_cache import forget
from rushlight.operators.normalization import normalization

pytest.importorskip("torch")


def wrapped(array):
    """A tensor whose storage wraps an array, and knows of no other that does."""
    return rl.from_numpy(array)


def test_storages_that_wrap_one_array_say_nothing_of_those_that_do_not():
    array, other = np.arange(6.0), np.full(6, 9.0)
    for _ in range(4):
        assert rl.nn.functional.mse_loss(wrapped(array), wrapped(array)).item() == 0
    found = rl.nn.functional.mse_loss(wrapped(array), wrapped(other)).item()
    assert found == np.square(array - other).mean()
    square = array[:4].reshape(2, 2)
    for _ in range(4):
        rl.mm(wrapped(square), wrapped(square))
    apart = rl.mm(wrapped(square), wrapped(np.eye(2)))
    assert apart.tolist() == square.tolist()


def test_storages_that_overlap_in_part_say_nothing_either():
    memory = np.arange(8.0)
    for _ in range(4):
        rl.dot(wrapped(memory[:6]), wrapped(memory[2:]))
    first, second = np.arange(6.0), np.full(6, 2.0)
    assert rl.dot(wrapped(first), wrapped(second)).item() == 2 * first.sum()


def test_what_a_kernel_refuses_is_refused_after_calls_that_were_good():
    x, mean, var = rl.ones(2, 3), rl.zeros(3), rl.ones(3)
    for _ in range(4):
        rl.native_batch_norm(x, None, None, mean, var, True, 0.1, 1e-5)
    wanting = rl.zeros(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="not differentiable with respect"):
        rl.native_batch_norm(x, None, None, wanting, var, True, 0.1, 1e-5)
    with rl.inference_mode():
        kept = rl.zeros(3)
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
        rl.native_batch_norm(x, None, None, kept, var, True, 0.1, 1e-5)


@pytest.mark.parametrize(
    "call, good, bad",
    [
        (
            lambda m: rl.masked_scatter(rl.zeros(3), m > 0, rl.ones(2)),
            [1, 0, 1],
            [1] * 3,
        ),
        (
            lambda i: rl.searchsorted(rl.ones(3), rl.ones(2), sorter=i),
            [2, 1, 0],
            [0, 1, 3],
        ),
        (
            lambda i: rl.searchsorted(rl.ones(3), rl.ones(2), sorter=i),
            [0] * 3,
            [-1, 1, 0],
        ),
    ],
    ids=["too little", "above", "below"],
)
def test_elements_are_refused_after_calls_whose_elements_were_good(call, good, bad):
    for _ in range(4):
        call(rl.tensor(good))
        with pytest.raises(RuntimeError, match="source|out of range"):
            call(rl.tensor(bad))


def test_what_was_put_off_is_put_off_by_a_plan():
    x = rl.tensor([1.0, -2.0, 0.5])
    wanted = np.fft.ifft([1.0, -2.0, 0.5])
    for _ in range(5):
        whole, half = rl.fft.ifft(x), rl.fft.ihfft(x)
        assert whole.is_conj() and half.is_conj()
        np.testing.assert_allclose(whole.resolve_conj().numpy(), wanted, atol=1e-6)
        np.testing.assert_allclose(half.resolve_conj().numpy(), wanted[:2], atol=1e-6)


def test_writes_are_counted_however_often_they_are_made():
    for _ in range(5):
        mean, var = rl.zeros(3), rl.ones(3)
        rl.nn.functional.instance_norm(rl.ones(2, 3, 4), mean, var)
        assert (mean._version, var._version) == (1, 1)


def test_results_that_were_written_to_again_count_that():
    def aged():
        whole = rl.arange(1, 7).reshape(2, 3)
        loss = rl.nn.functional.poisson_nll_loss(
            whole, whole, full=True, reduction="none"
        )
        return loss._version

    assert len({aged() for _ in range(5)}) == 1


# About half of the operators, by the last letter; `python -m tests.plans` sweeps all.
SWEPT = r"[acegikmoqsuwy_\d]$"


@pytest.fixture(scope="module")
def calls():
    """One call of PyTorch's samples for each operator, and what planned ones it makes."""
    from tests import plans

    public, inner = plans.harvest(SWEPT, dtypes=("float32",), each=1)
    # of public ones those that want no gradients: compositions have plans for these
    return list({call.name: call for call in [*public, *inner[::-1]]}.values())


@pytest.mark.parametrize("letters", ["_", "[a-c]", "[d-m]", "[n-r]", "[s-z]"])
def test_what_else_changes_changes_what_a_plan_gives(calls, letters):
    from tests import plans

    wrong, swept = [], 0
    for call in calls:
        if not re.match(letters, call.name.removeprefix("nn.functional.")):
            continue
        if plans.warmed(call, plans.Variant("as it is")):
            swept += 1
            wrong += [(repr(call)[:200], *found) for found in plans.sweep(call)]
    forget()
    assert swept > 8
    assert not wrong


def test_what_a_call_writes_after_it_reads_a_number_is_written_once(monkeypatch):
    """Nothing of such a call can be written down, and the call above it is a step."""

    def read(center, source):
        assert center.sum().item() == 3
        return center

    monkeypatch.setattr(normalization, "_whole_means", read)
    forget()
    for _ in range(4):
        mean, var = rl.zeros(3), rl.ones(3)
        rl.nn.functional.batch_norm(rl.ones(2, 3), mean, var, training=True)
        assert mean.tolist() == rl.full((3,), 0.1).tolist()
    forget()
