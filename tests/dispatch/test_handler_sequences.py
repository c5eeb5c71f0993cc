"""Handlers of operators see what PyTorch's see, call by call."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest", reason="the oracle's samples need it")

from tests.sequences import models, operators, wrappers  # noqa: E402
from tests.sequences.known import KNOWN  # noqa: E402

BAD = ("differs", "refused")
EVERY = 24  # operators: one in so many; `python -m tests.sequences` goes through all


def differences(table, cases, compare):
    """What is not the same, and not known."""
    found = {}
    for case, name in cases:
        verdict, detail = compare(case)
        if verdict in BAD and (table, name) not in KNOWN:
            found[name] = detail
    return found


def test_a_wrapper_sees_the_operators_that_pytorch_shows_it():
    calls = [(name, name) for name in wrappers.CALLS]
    assert not differences("wrapper", calls, wrappers.compare)


def test_a_mode_sees_the_operators_of_models_and_of_their_gradients():
    calls = [(name, name) for name in models.MODELS]
    assert not differences("model", calls, models.compare)


def test_a_mode_sees_the_operators_of_the_database():
    assert not differences("operator", operators.names()[::EVERY], operators.compare)


@pytest.mark.parametrize(
    "table, size",
    [
        ("wrapper", len(wrappers.CALLS)),
        ("model", len(models.MODELS)),
        ("operator", len(operators.names())),
    ],
)
def test_what_handlers_see_otherwise_is_a_twentieth_at_most(table, size):
    known = [key for key in KNOWN if key[0] == table]
    assert len(known) <= 0.05 * size
