"""Stops at the operator that makes the first NaN or infinity."""

import rushlight
from rushlight.inspection._page import run_panel
from rushlight.inspection._recording import recorder_class

RunRecorder = recorder_class(rushlight)
RunRecorder.panel = run_panel


class NonFiniteError(FloatingPointError):
    """An operator made a NaN or an infinity of finite numbers.

    Attributes:
        record: the call, an `OperatorRecord`.

    >>> import rushlight as rl
    >>> try:
    ...     with NonFiniteTrap():
    ...         _ = rl.zeros(1).log()
    ... except NonFiniteError as error:
    ...     print(error.record.name)
    aten.log.default
    """

    def __init__(self, text, record):
        super().__init__(text)
        self.record = record


class NonFiniteTrap(RunRecorder):
    """Raises at the first operator that makes a NaN or an infinity of finite numbers.

    Backward passes in the block are watched, too. What is infinite when it enters the
    block, such as a mask of minus infinity, is not held against operators that pass it on.

    Args:
        infinities: whether infinities count, or NaNs alone.

    Raises:
        NonFiniteError: names the operator, the module and line, and its inputs.

    >>> import rushlight as rl
    >>> with NonFiniteTrap():
    ...     x = rl.tensor([4.0, -1.0]).sqrt()
    Traceback (most recent call last):
    rushlight.inspection._traps.NonFiniteError: aten.sqrt.default made 1 nan ...
    """

    def __init__(self, infinities=True):
        super().__init__(limit=float("inf"))
        self.infinities = infinities

    def recorded(self, record):
        """Looks at a call; of those that are well only the last is kept."""
        del self.records[:-1]
        record.number = 0
        if record.name in UNINITIALIZED:
            return
        made = [t for t in record.outputs if self._is_wrong(t)]
        if made and not any(map(self._is_wrong, record.inputs)):
            raise NonFiniteError(_message(record, made), record)

    def _is_wrong(self, tensor):
        return bool(tensor.nan or (self.infinities and tensor.inf))


# What these give has no values yet.
UNINITIALIZED = frozenset(
    f"aten.{name}"
    for name in (
        *("empty.memory_format", "empty_like.default", "empty_strided.default"),
        *("new_empty.default", "new_empty_strided.default", "empty_permuted.default"),
        *("resize_.default", "empty.names", "_empty_affine_quantized.default"),
    )
)


def _message(record, made):
    counts = [(sum(t.nan for t in made), "nan"), (sum(t.inf for t in made), "inf")]
    text = " and ".join(f"{count} {what}" for count, what in counts if count)
    lines = [f"{record.name} made {text} of finite numbers"]
    if record.module:
        lines.append(f"in module {record.module}")
    if record.source:
        kind = "in the backward pass of" if record.backward else "at"
        lines.append(f"{kind} {record.source}")
    lines += [f"input {n}: {t!r}" for n, t in enumerate(record.inputs)]
    lines += [f"result: {t!r}" for t in made]
    return "\n  ".join(lines)
