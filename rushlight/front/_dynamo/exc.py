"""Errors of captured and exported programs, by the names that programs catch."""

import enum

__all__ = [
    "BackendCompilerFailed",
    "FailOnRecompileLimitHit",
    "InternalTorchDynamoError",
    "InvalidBackend",
    "RecompileError",
    "TorchDynamoException",
    "TorchRuntimeError",
    "Unsupported",
    "UserError",
    "UserErrorType",
]


class TorchDynamoException(RuntimeError):
    """What has gone wrong while a program was captured."""


class InternalTorchDynamoError(TorchDynamoException):
    """Capturing has gone wrong by a fault of its own."""


class TorchRuntimeError(TorchDynamoException):
    """An operator has refused its operands: here its own error is raised."""


class InvalidBackend(TorchDynamoException):
    """There is no backend of a name."""

    def __init__(self, name):
        super().__init__(
            f"Invalid backend: {name!r}, see `torch._dynamo.list_backends()` for "
            "available backends."
        )


class BackendCompilerFailed(TorchDynamoException):
    """A backend of somebody's own has raised an error.

    Args:
        backend_fn: the backend.
        inner_exception: its error.
    """

    def __init__(self, backend_fn, inner_exception, first_useful_frame=None):
        self.backend_name = getattr(backend_fn, "__name__", "?")
        self.inner_exception = inner_exception
        super().__init__(
            f"backend={self.backend_name!r} raised:\n"
            f"{type(inner_exception).__name__}: {inner_exception}"
        )


class RecompileError(TorchDynamoException):
    """A function takes another path than before, where that was to be an error."""


class FailOnRecompileLimitHit(Exception):
    """A function has more programs than it may, where that was to be an error."""


class Unsupported(TorchDynamoException):
    """A program does what is not captured."""


class UserErrorType(enum.Enum):
    """What is wrong about a program that was to be exported."""

    DYNAMIC_CONTROL_FLOW = enum.auto()
    ANTI_PATTERN = enum.auto()
    STANDARD_LIBRARY = enum.auto()
    CONSTRAINT_VIOLATION = enum.auto()
    DYNAMIC_DIM = enum.auto()
    INVALID_INPUT = enum.auto()
    INVALID_OUTPUT = enum.auto()
    UNSUPPORTED_ALIASED_MUTATED_DYNAMIC_INPUTS = enum.auto()


class UserError(Unsupported):
    """A program, or a description of its inputs, that cannot be exported.

    Args:
        error_type: what is wrong.
        msg: the facts, and the remedy.
        case_name: the name of an example in PyTorch's collection.
    """

    def __init__(self, error_type, msg, case_name=None):
        if not isinstance(error_type, UserErrorType):
            raise AssertionError(f"expected UserErrorType, got {type(error_type)}")
        super().__init__(msg)
        self.error_type = error_type
        self.message = msg
        self.msg = msg
        self.case_name = case_name
