"""What a program's failure says: the operator's words, and where the source stands."""

from rushlight.jit._sources import Error, Fault, FrontendError, ScriptError

_HEAD = """The following operation failed in the TorchScript interpreter.
Traceback of TorchScript (most recent call last):
"""
_MARK = "The following operation failed in the TorchScript interpreter."


def guarded(run, *operands):
    """The result of a program; its failure is told as PyTorch tells it."""
    try:
        return run(*operands)
    except Exception as failure:
        made = described(failure)
        if made is failure:
            raise
        raise made from failure


def described(failure):
    """The exception that the caller of a program gets for one that ended it.

    A ``raise`` of the program is an :class:`Error`, an operator's failure a
    ``RuntimeError``; warnings made errors and what is told already stay what they are.
    """
    if isinstance(failure, (Warning, ScriptError, FrontendError)) or str(
        failure
    ).startswith(_MARK):
        return failure
    ranges = list(_ranges(failure))
    kind, message = type(failure).__name__, _words(failure)
    if isinstance(failure, Fault):
        if failure.place is not None:
            ranges[-1:] = [(failure.place, ranges[-1][1] if ranges else "")]
        kind = failure.kind
    elif isinstance(failure, Error):
        kind = getattr(failure, "kind", "")
    else:
        kind = None
    if not ranges:
        return failure
    shown = "\n".join(
        place.highlight(name) for place, name in ranges if place is not None
    )
    text = f"{_HEAD}{shown}\n{kind or 'RuntimeError'}: {message}\n"
    return RuntimeError(text) if kind is None else Error(text)


def _words(failure):
    if isinstance(failure, ZeroDivisionError):
        return f"ZeroDivisionError: {failure}"
    if isinstance(failure, KeyError) and failure.args:
        return str(failure.args[0])
    return str(failure)


def _ranges(failure):
    """Where each program stood that the failure went through, the innermost last."""
    trace = failure.__traceback__
    while trace is not None:
        scope = trace.tb_frame.f_globals
        if trace.tb_frame.f_code.co_filename.startswith("<torch_jit "):
            place = scope["ranges"][trace.tb_lineno - 1]
            yield place, scope["function"].base_name
        trace = trace.tb_next
