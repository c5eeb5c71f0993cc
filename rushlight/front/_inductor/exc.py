"""Errors of the compiler of captured programs."""

from rushlight._dynamo.exc import TorchDynamoException

__all__ = ["InductorError"]


class InductorError(TorchDynamoException):
    """A program could not be built.

    Args:
        inner_exception: the error that was the reason.
    """

    def __init__(self, inner_exception, first_useful_frame=None):
        self.inner_exception = inner_exception
        name = type(inner_exception).__name__
        super().__init__(f"{name}: {inner_exception}")
