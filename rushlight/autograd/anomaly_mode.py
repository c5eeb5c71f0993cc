"""Anomaly detection: the forward call behind a failing backward; NaN as an error."""

import warnings

from rushlight.core import state
from rushlight.core.truth import truth_of_argument


class detect_anomaly(state.Scope):
    """While active, an error in backward prints the forward call that recorded it.

    With ``check_nan``, a backward that makes NaN raises RuntimeError. Slow: every
    recorded call keeps its stack.
    """

    def __init__(self, check_nan=True):
        self.wanted = (True, check_nan)
        self.earlier = state.set_anomaly(*earlier_switches())
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime "
            "and "
            "should only be enabled for debugging.",
            stacklevel=2,
        )

    def _save(self):
        self.earlier = earlier_switches()

    def _change(self):
        state.set_anomaly(*self.wanted)

    def _restore(self):
        state.set_anomaly(*self.earlier)


class set_detect_anomaly(state.Scope):
    """Switches anomaly detection on or off, as a function or for a ``with`` block."""

    def __init__(self, mode, check_nan=True):
        truth_of_argument("set_anomaly_enabled", "enabled", 1, mode)
        self.earlier = state.set_anomaly(mode, check_nan)

    def _save(self):
        """Nothing: `earlier` is from before the call."""

    def _change(self):
        """Nothing: the call has done it."""

    def _restore(self):
        state.set_anomaly(*self.earlier)


def earlier_switches():
    return state.is_anomaly_enabled(), state.is_anomaly_check_nan_enabled()


def trace_forward() -> list:
    """The Python stack of the call being recorded, as formatted lines."""
    import traceback  # much to import, for those who look for an error

    return traceback.format_stack()[:-1]


def warn_about(node):
    """Print the stack of the forward call whose backward has just failed."""
    if node.trace_lines is None:
        warnings.warn(
            f"Error detected in {node.name()}. No forward pass information available. "
            "Enable detect anomaly during forward pass for more information.",
            stacklevel=2,
        )
        return
    warnings.warn(
        f"Error detected in {node.name()}. Traceback of forward call that caused the "
        "error:\n" + "".join(node.trace_lines),
        stacklevel=2,
    )


def check_nan(name: str, results: tuple):
    """Raise where a gradient that a node has computed holds NaN."""
    for i, grad in enumerate(results):
        if grad is not None and is_inexact(grad) and bool(grad.isnan().any()):
            raise RuntimeError(
                f"Function '{name}' returned nan values in its {i}th output."
            )


def is_inexact(grad) -> bool:
    return grad.dtype.is_floating_point or grad.dtype.is_complex
