"""What ran, where memory went, why it is not finite: runs and models, looked into.

`RunRecorder` keeps every operator of a block with summaries of its tensors, `MemoryRecorder`
every block of memory with the line that took it, `LayerWatch` the figures of a model's layers.
`NonFiniteTrap` stops at the operator that makes a NaN or an infinity, `compare_runs` finds the
first operator at which a program differs between Rushlight and another library with the same
interface, `find_nondeterminism` between two runs. `inspection_page` shows all of it as a page.
"""

from rushlight.inspection._comparison import Comparison, compare_runs
from rushlight.inspection._determinism import find_nondeterminism
from rushlight.inspection._formats import FormatLoss, FormatWatch, find_format_losses
from rushlight.inspection._graphs import fx_panel, graph_panel, module_panel
from rushlight.inspection._layers import LayerFigures, LayerWatch, layer_page
from rushlight.inspection import _memory
from rushlight.inspection._memory import *
from rushlight.inspection._page import run_page
from rushlight.inspection._recording import OperatorRecord, TensorRecord
from rushlight.inspection._traces import OperatorChange, ThreadTime, TraceAnalysis
from rushlight.inspection._traps import NonFiniteError, NonFiniteTrap, RunRecorder
from rushlight.inspection._viewer import Panel, inspection_page

__all__ = [
    "Comparison",
    "FormatLoss",
    "FormatWatch",
    "LayerFigures",
    "LayerWatch",
    "NonFiniteError",
    "NonFiniteTrap",
    "OperatorChange",
    "OperatorRecord",
    "Panel",
    "RunRecorder",
    "TensorRecord",
    "ThreadTime",
    "TraceAnalysis",
    "compare_runs",
    "find_format_losses",
    "find_nondeterminism",
    "fx_panel",
    "graph_panel",
    "inspection_page",
    "layer_page",
    "module_panel",
    "run_page",
]
__all__ += _memory.__all__
