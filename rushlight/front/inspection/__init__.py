"""What ran, why it is not finite, and where two libraries part: runs, looked into.

`RunRecorder` keeps every operator of a block with summaries of its tensors, `run_page`
shows them as a page to step through, `NonFiniteTrap` stops at the operator that makes a
NaN or an infinity, `compare_runs` finds the first operator at which a program differs
between Rushlight and another library with the same interface.
"""

from __future__ import annotations

from rushlight.inspection._comparison import Comparison, compare_runs
from rushlight.inspection._page import run_page
from rushlight.inspection._recording import OperatorRecord, TensorRecord
from rushlight.inspection._traps import NonFiniteError, NonFiniteTrap, RunRecorder

__all__ = [
    "Comparison",
    "NonFiniteError",
    "NonFiniteTrap",
    "OperatorRecord",
    "RunRecorder",
    "TensorRecord",
    "compare_runs",
    "run_page",
]
