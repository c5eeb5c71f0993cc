"""Tensors and a mode that log each operator below autograd.

>>> import rushlight as rl
>>> with capture_logs(is_mode=True) as lines, LoggingTensorMode():
...     total = (rl.ones(2) * 3).sum()
>>> print(lines[1])
$1: f32[2] = rushlight._ops.aten.mul.Tensor($0, 3)
"""

import contextlib
import logging

import rushlight
from rushlight.core import naming
from rushlight.ir.expr import SHORT_NAMES
from rushlight.utils._python_dispatch import TorchDispatchMode
from rushlight.utils._pytree import tree_map
from rushlight.utils.weak import WeakIdKeyDictionary

__all__ = [
    "LoggingTensor",
    "LoggingTensorHandler",
    "LoggingTensorMode",
    "LoggingTensorReentrant",
    "capture_logs",
    "capture_logs_with_logging_tensor_mode",
    "log_input",
]
LOG = logging.getLogger("LoggingTensor")
SHORT = SHORT_NAMES | {"bool": "b8", "complex64": "c64", "complex128": "c128"}


def _log(name, args, kwargs, result):
    LOG.info("%s", name, extra={"call": (args, kwargs, result)})


def log_input(name, tensor):
    """Log a tensor that a program begins with, by name."""
    _log("input", (name,), {}, tensor)


class LoggingTensor(rushlight.Tensor):
    """A tensor that logs the operators it meets.

    Args:
        elem: the tensor that computes.
        requires_grad: whether gradients are recorded.
    """

    @staticmethod
    def __new__(cls, elem, *args, requires_grad=False, **kwargs):
        made = rushlight.Tensor._make_wrapper_subclass(
            cls,
            elem.size(),
            strides=elem.stride(),
            storage_offset=elem.storage_offset(),
            dtype=elem.dtype,
            layout=elem.layout,
            device=elem.device,
            requires_grad=requires_grad or elem.requires_grad,
        )
        made.elem = elem.detach() if made.requires_grad else elem
        return made

    def __repr__(self, *, tensor_contents=None):
        shown = f"LoggingTensor({self.elem!r}"
        return shown + (", requires_grad=True)" if self.requires_grad else ")")

    @classmethod
    def around(cls):
        """What holds while the operator itself runs."""
        return contextlib.nullcontext()

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        plain = lambda x: x.elem if isinstance(x, cls) else x  # noqa: E731
        with cls.around():
            result = func(*tree_map(plain, args), **tree_map(plain, kwargs))
        wrap = lambda x: cls(x) if isinstance(x, rushlight.Tensor) else x  # noqa: E731
        result = tree_map(wrap, result)
        _log(f"{naming.package}._ops.{func}", args, kwargs, result)
        return result


class LoggingTensorReentrant(LoggingTensor):
    """A `LoggingTensor` whose operators meet modes and types again inside."""

    @classmethod
    def around(cls):
        return rushlight.overrides.enable_reentrant_dispatch()


class LoggingTensorMode(TorchDispatchMode):
    """Logs every operator of a block."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        _log(f"{naming.package}._ops.{func}", args, kwargs, result)
        return result


class LoggingTensorHandler(logging.Handler):
    """Puts what is logged into a list, a line an operator, tensors by number.

    Args:
        log_list: takes the lines.
        use_shortid_for_all_tensors: whether plain tensors have numbers, too.
    """

    def __init__(self, log_list, use_shortid_for_all_tensors=False, **unused):
        super().__init__()
        self.log_list = log_list
        self.every = use_shortid_for_all_tensors
        self.numbers = WeakIdKeyDictionary()
        self.count = 0

    def number(self, tensor):
        """The number of a tensor: the first that is asked for is 0."""
        if tensor not in self.numbers:
            self.numbers[tensor] = self.count
            self.count += 1
        return self.numbers[tensor]

    def shown(self, value, with_type=False):
        """A value as a line has it."""
        known = isinstance(value, LoggingTensor)
        if not known and not (self.every and isinstance(value, rushlight.Tensor)):
            return repr(value)
        kind = ""
        if with_type:
            sizes = ", ".join(map(str, value.shape))
            kind = f": {SHORT.get(value.dtype.name, value.dtype.name)}[{sizes}]"
        return f"${self.number(value)}{kind}"

    def emit(self, record):
        """Write a record's line."""
        args, kwargs, result = record.call
        given = [str(tree_map(self.shown, one)) for one in args]
        given += [f"{name}={tree_map(self.shown, one)}" for name, one in kwargs.items()]
        got = tree_map(lambda one: self.shown(one, True), result)
        self.log_list.append(f"{got} = {record.msg % record.args}({', '.join(given)})")


@contextlib.contextmanager
def capture_logs(is_mode=False, **unused):
    """A list that gets the lines of what a block logs.

    Args:
        is_mode: whether plain tensors get numbers: for `LoggingTensorMode`.
    """
    lines: list = []
    handler = LoggingTensorHandler(lines, use_shortid_for_all_tensors=is_mode)
    before = LOG.level, LOG.propagate
    try:
        LOG.addHandler(handler)
        LOG.setLevel(logging.INFO)
        LOG.propagate = False
        yield lines
    finally:
        LOG.removeHandler(handler)
        LOG.level, LOG.propagate = before


@contextlib.contextmanager
def capture_logs_with_logging_tensor_mode():
    """`capture_logs` around a block in `LoggingTensorMode`."""
    with LoggingTensorMode(), capture_logs(is_mode=True) as lines:
        yield lines
