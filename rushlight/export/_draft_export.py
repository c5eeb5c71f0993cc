"""Programs recorded all the same, with a report of what stands against it."""

import dataclasses
import logging
from enum import IntEnum

from rushlight._dynamo.exc import UserError, UserErrorType
from rushlight.export._draft_recording import DraftRecording, Observer
from rushlight.export._trace import recorded
from rushlight.export.dynamic_shapes import (
    AdditionalInputs,
    Dim,
    ShapesCollection,
    is_hint,
)
from rushlight.ir.symbolic import SymInt
from rushlight.utils._pytree import tree_map

__all__ = ["DraftExportReport", "FailureReport", "FailureType", "draft_export"]

_LOG = logging.getLogger(__name__)
_LINE = "#" * 80


class FailureType(IntEnum):
    """What stands against a program."""

    MISSING_FAKE_KERNEL = 1
    DATA_DEPENDENT_ERROR = 2
    GUARD_ADDED = 3
    MISMATCHED_FAKE_KERNEL = 4

    def __str__(self):
        return self.name


@dataclasses.dataclass
class FailureReport:
    """One thing that stands against a program.

    Args:
        failure_type: its kind.
        data: what is known of it; ``op``, ``expr``, ``result``, ``user_stack`` and others.
        xfail: whether it is known and accepted.
    """

    failure_type: FailureType
    data: dict
    xfail: bool = False

    def print(self, str_to_filename=None):
        """The report as text, with the remedy.

        Args:
            str_to_filename: kept for PyTorch's programs.
        """
        texts = {
            FailureType.MISSING_FAKE_KERNEL: _missing,
            FailureType.DATA_DEPENDENT_ERROR: _data_dependent,
            FailureType.GUARD_ADDED: _guard,
            FailureType.MISMATCHED_FAKE_KERNEL: _mismatched,
        }
        return texts[self.failure_type](self.data)

    def __repr__(self):
        return (
            f"FailureReport(failure_type={self.failure_type}, xfail={self.xfail}, "
            f"data={self.data})"
        )


def _missing(data):
    return (
        "Missing fake kernel.\n"
        f"    torch.ops.{data['op']} is missing a fake kernel implementation: its "
        "results' sizes were taken from a run with elements.\n"
        f'  remedy: torch.library.register_fake("{data["op"]}")\n'
    )


def _mismatched(data):
    return (
        "Mismatched fake kernel.\n"
        f"    torch.ops.{data['op']} has a fake kernel implementation, but it has "
        f"incorrect behavior, based on the real kernel: {data['reason']}\n"
        "  remedy: a fake kernel whose results have the sizes and types of the real one\n"
    )


def _data_dependent(data):
    return (
        "Data dependent error.\n"
        f"    When exporting, we were unable to evaluate the value of `{data['expr']}`.\n"
        f"    This was encountered {data['occurrences']} times, at:\n"
        f"{_stack(data)}"
        f"    It was specialized to a constant (`{data['result']}` in the 1st "
        "occurrence), and asserts were inserted into the graph.\n"
        "  remedy: torch._check(...) for what always holds, torch.cond for a choice\n"
    )


def _guard(data):
    return (
        "Guard Added.\n"
        "    A guard was added during tracing, which a size that was to stay open does "
        "not satisfy.\n"
        f"    Specifically, this guard was added: {data['expr']}, where "
        f"{data['symbol_to_sources']}.\n"
        "    The dynamic shapes structure was modified to be the following:\n"
        f"    ```\n    dynamic_shapes = {data['new_dynamic_shapes']}\n    ```\n"
        "  remedy: torch.export.Dim.AUTO for sizes that may be fixed\n"
    )


def _stack(data):
    return "".join(
        f"        File {one['filename']}, lineno {one['line']}, in {one['name']}\n"
        for one in data["user_stack"]
    )


class DraftExportReport:
    """All that stands against a program.

    Args:
        failures: a list of `FailureReport`.
        str_to_filename, expressions_created: kept for PyTorch's programs.
        op_profiles: kept likewise.
    """

    def __init__(
        self, failures, str_to_filename=None, expressions_created=None, op_profiles=None
    ):
        self.failures = failures
        self.str_to_filename = str_to_filename or {}
        self.expressions_created = expressions_created or {}
        self.op_profiles = op_profiles or {}

    def successful(self):
        """Whether nothing stands against it but what is accepted."""
        return all(failure.xfail for failure in self.failures)

    def __repr__(self):
        return f"DraftExportReport({self.failures})"

    def __str__(self):
        if self.successful():
            return (
                f"\n{_LINE}\nCongratulations: No issues are found during export, and it was "
                "able to soundly produce a graph.\nYou can now change back to "
                f"torch.export.export()\n{_LINE}\n"
            )
        rows = [
            f"{number}. {failure.print(self.str_to_filename)}"
            for number, failure in enumerate(self.failures, 1)
        ]
        return (
            f"\n{_LINE}\nWARNING: {len(self.failures)} issue(s) found during export, and it "
            "was not able to soundly produce a graph.\nPlease follow the instructions to "
            f"fix the errors.\n{_LINE}\n\n" + "\n".join(rows)
        )

    def apply_suggested_fixes(self):
        """Would change the program.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("Not implemented yet")


def draft_export(
    mod,
    args,
    kwargs=None,
    *,
    dynamic_shapes=None,
    preserve_module_call_signature=(),
    strict=False,
    pre_dispatch=True,
    prefer_deferred_runtime_asserts_over_guards=False,
):
    """A module as a program, as `export` makes it, but what is in the way is reported.

    The module runs on its arguments' elements as well: where Python asks for a number that
    follows from them, it gets this run's, and the program checks that it has the same.
    Sizes that cannot stay open are fixed. An operator without a fake kernel has new sizes.
    ``_report`` of the program says what was found; a program with failures is a draft.

    Args:
        mod, args, kwargs, dynamic_shapes: as `export` has them.
        preserve_module_call_signature: likewise.
        strict, pre_dispatch: kept for PyTorch's programs.
        prefer_deferred_runtime_asserts_over_guards: kept likewise.

    >>> import rushlight as rl
    >>> class Signed(rl.nn.Module):
    ...     def forward(self, x):
    ...         return x * 2 if x.sum() > 0 else x
    >>> program = draft_export(Signed(), (rl.ones(2),))
    >>> [str(one.failure_type) for one in program._report.failures]
    ['DATA_DEPENDENT_ERROR']
    >>> program.module()(rl.ones(2))
    tensor([2., 2.])
    """
    program, observer = _drafted(
        mod, args, kwargs, dynamic_shapes, preserve_module_call_signature
    )
    failures = [
        FailureReport(FailureType[name], data) for name, data in observer.failures
    ]
    program._report = DraftExportReport(failures)
    if failures:
        _LOG.warning(
            "draft_export: %d issue(s) found, and no sound graph: print(ep._report)",
            len(failures),
        )
    else:
        _LOG.info("draft_export: no issues found; torch.export.export does the same")
    return program


def _drafted(mod, args, kwargs, dynamic_shapes, noted):
    """The program, and the `Observer` of its last recording."""
    observer = Observer()

    def kind(*given):
        return DraftRecording(*given, observer)

    try:
        program, _ = recorded(kind, mod, args, kwargs, dynamic_shapes, noted)
    except UserError as error:
        if error.error_type is not UserErrorType.CONSTRAINT_VIOLATION:
            raise
        if isinstance(dynamic_shapes, (ShapesCollection, AdditionalInputs)):
            dynamic_shapes = dynamic_shapes.dynamic_shapes(mod, args, kwargs)
        marked = observer.marked
        new_shapes = tree_map(_as_found, dynamic_shapes, is_leaf=_is_size)
        program, sizes = recorded(kind, mod, args, kwargs, new_shapes, noted)
        observer.failures += _narrowed(marked, sizes, new_shapes)
    return program, observer


def _is_size(one):
    return isinstance(one, Dim) or is_hint(one)


def _as_found(one):
    """What a size is asked to be where it need not stay open."""
    if isinstance(one, Dim):
        high = one.max
        return Dim.AUTO(min=one.min, max=None if high == float("inf") else high)
    if is_hint(one) and one.type == "DYNAMIC":
        return Dim.AUTO if one is Dim.DYNAMIC else Dim.AUTO(min=one.min, max=one.max)
    return one


def _narrowed(marked, sizes, new_shapes):
    """The guards that sizes do not satisfy which were to stay open.

    Args:
        marked: for each such size, by where it is, its value and bounds.
        sizes: the `OpenSizes` of the recording in which they need not.
        new_shapes: what was asked of that recording.
    """
    open_sizes = {
        key: sizes.ranges[key]
        for key, number in sizes.symbols.items()
        if isinstance(number, SymInt)
    }
    for at, (source, (value, least, most)) in enumerate(marked.items()):
        low, high = open_sizes.get(source, (value, value))
        if source not in open_sizes:
            expr = f"Eq(s{at}, {value})"
        elif low > least:
            expr = f"s{at} > {low - 1}"
        elif high < most:
            expr = f"s{at} < {high + 1}"
        else:
            continue
        yield (
            "GUARD_ADDED",
            {
                "expr": expr,
                "symbol_to_sources": {f"s{at}": [source]},
                "new_dynamic_shapes": new_shapes,
                "user_stack": [],
                "stack": [],
                "frame_locals": None,
            },
        )
