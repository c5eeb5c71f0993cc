"""``GradScaler`` for the host under its former name."""

from rushlight.amp._older_names import FormerGradScaler
from rushlight.core.docstrings import describe_arguments

__all__ = ["GradScaler"]


class GradScaler(FormerGradScaler):
    """``amp.GradScaler("cpu", ...)``."""

    _kind = "cpu"


describe_arguments(globals())
