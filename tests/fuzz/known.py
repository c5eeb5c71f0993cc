"""Differences from PyTorch that are meant, or are PyTorch's: each with its reason."""

from __future__ import annotations

import re

# (operator, kind of difference, the difference's text, why it stands)
EXPLAINED = [
    (
        r".*",
        r"accepted",
        r".*NotImplementedError: .*not implemented for.*",
        "a type for which PyTorch has no kernel",
    ),
]
_COMPILED = [
    (re.compile(op), re.compile(kind), re.compile(text, re.S), why)
    for op, kind, text, why in EXPLAINED
]


def explanation(case, kind, text):
    """Why a difference stands, or None."""
    for op, kinds, texts, why in _COMPILED:
        if (
            op.fullmatch(case.path[1])
            and kinds.fullmatch(kind)
            and texts.fullmatch(text)
        ):
            return why
    return None
