"""The first call that PyTorch's database has of each operator, under a mode."""

from __future__ import annotations

import torch

import rushlight as rl
from tests.export.sweep import case_of, names
from tests.fuzz import judge
from tests.fuzz.specs import Side
from tests.sequences.listen import under_mode, verdict_of

__all__ = ["compare", "names"]


def called(lib, case):
    """What a mode sees of a call, and what the call gives."""
    function = judge.lookup(lib, case.path)
    side = Side(lib)
    args, kwargs = side.build(case.args), side.build(case.kwargs)
    args = lib.utils._pytree.tree_map(
        lambda one: one.detach() if isinstance(one, lib.Tensor) else one, args
    )
    return under_mode(lib, lambda: function(*args, **kwargs))


def compare(at):
    """What becomes of an operator: ``(verdict, detail)``."""
    case = case_of(at)
    if case is None:
        return "no sample", ""
    return verdict_of(called(torch, case), called(rl, case))
