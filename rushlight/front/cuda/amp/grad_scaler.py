"""``GradScaler`` under its former name."""

from rushlight.amp._older_names import FormerGradScaler
from rushlight.amp.grad_scaler import OptState
from rushlight.core.docstrings import describe_arguments

__all__ = ["GradScaler", "OptState"]


class GradScaler(FormerGradScaler):
    """``amp.GradScaler("cuda", ...)``: without a GPU, nothing is scaled."""

    _kind = "cuda"


describe_arguments(globals())
