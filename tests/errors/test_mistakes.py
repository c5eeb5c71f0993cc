"""Every mistake ends in the oracle's type of exception, with a text of its own."""

import re

import pytest

import rushlight

from . import files, gradients, indices, memory, modules, shapes, types  # noqa: F401
from .table import MISTAKES, outcome

PROGRAMS = [pytest.param(*row, id=row[0].__name__) for row in MISTAKES]
# Where PyTorch says less, or names its own parts.
OTHER_WORDS = {
    "adding_a_tensor_without_data", "labels_of_dtype_int32",
    "multiplying_matrices_of_two_dtypes", "an_empty_checkpoint",
    "taking_from_nothing", "a_negative_size",
    "copying_a_row_of_another_length", "combining_the_bits_of_floats",
}  # fmt: skip
# Where PyTorch reads memory that nobody wrote.
NOT_AN_ERROR = {"picking_rows_by_an_index_without_data"}


def words(text):
    """The words of a text's first line."""
    return set(re.findall(r"[a-z0-9]+", text.split("\n")[0].lower()))


@pytest.mark.parametrize("program, kind, text", PROGRAMS)
def test_a_mistake_is_told_in_full(program, kind, text):
    assert outcome(program, rushlight) == (kind, text.strip("\n"))


@pytest.mark.parametrize("program, kind, text", PROGRAMS)
def test_a_mistake_is_of_the_oracles_type_and_nearly_its_words(program, kind, text):
    torch = pytest.importorskip("torch", reason="the oracle is not installed")
    found, said = outcome(program, torch)
    if program.__name__ in NOT_AN_ERROR:
        return
    assert issubclass(kind, found), f"PyTorch raises {found}: {said}"
    if program.__name__ not in OTHER_WORDS:
        theirs, ours = words(said) - {"torch"}, words(text.strip("\n"))
        assert len(theirs & ours) >= 0.5 * min(len(theirs), 12), said
