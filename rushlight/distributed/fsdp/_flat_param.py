"""Parameters that others are put together in: there are none."""

from rushlight.distributed import _unavailable
from rushlight.nn import Parameter

__all__ = ["FlatParameter"]


class FlatParameter(Parameter):
    """A parameter that others are put together in, to be spread: there is none.

    Raises:
        NotImplementedError: always.
    """

    def __new__(cls, *args, **kwargs):
        _unavailable("fsdp.FlatParameter")
