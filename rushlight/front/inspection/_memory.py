"""Where memory goes: blocks with the line, the module and the operator that took them."""

import json
import linecache
import os
import time
from collections import defaultdict
from typing import NamedTuple

import rushlight
from rushlight._profiling import collect
from rushlight._profiling.chrome_trace import write_text
from rushlight.core import spans
from rushlight.core.storage import memory_counts
from rushlight.dispatch import profiling
from rushlight.inspection._memory_panel import memory_panel
from rushlight.inspection._recording import ModuleNames
from rushlight.inspection._viewer import document

__all__ = ["MemoryBlock", "MemoryLeak", "MemoryRecorder", "MemoryUse", "memory_page"]

_PACKAGE = os.path.dirname(os.path.abspath(rushlight.__file__)) + os.sep
_MODULE = "module"  # what spans of modules are known by
KINDS = ("line", "module", "operator")


class MemoryBlock(NamedTuple):
    """A block of memory, from when it was taken to when it was given back.

    Args:
        size: its bytes.
        start_ns, end_ns: from when to when; an end of None: it was never given back.
        line: the user's line that took it, ``file:line: text``; in backward passes the
            line of the forward call whose node did, or ``""``.
        module: the module that was running, or that the forward call belongs to.
        operator: the innermost operator, such as ``aten::mm``, or ``""``.
        backward: whether a backward pass was going on.
        step: how many steps were over when it was taken.
        stack: lines of Python outside of the package, innermost first.
    """

    size: int
    start_ns: int
    end_ns: int | None
    line: str
    module: str
    operator: str
    backward: bool
    step: int
    stack: tuple

    def is_live(self, moment):
        """Whether it is held at a moment."""
        return self.start_ns <= moment and (self.end_ns is None or moment < self.end_ns)


class MemoryUse(NamedTuple):
    """What one line, module or operator took.

    Args:
        name: which one.
        at_peak: its bytes when most memory was held.
        largest: the most bytes that it held at once.
        taken: the bytes of all its blocks.
        blocks: how many.
        left: its bytes that were never given back.
    """

    name: str
    at_peak: int
    largest: int
    taken: int
    blocks: int
    left: int


class MemoryLeak(NamedTuple):
    """A line whose blocks outlive the steps that took them.

    Args:
        line, module, operator: where the blocks were taken.
        steps: the steps of which blocks are left.
        size: their bytes.
    """

    line: str
    module: str
    operator: str
    steps: tuple
    size: int


class _ModuleSpans(ModuleNames):
    """Modules as spans with their paths, so that blocks know where they were taken."""

    def __init__(self, library):
        super().__init__(library)
        self._tokens: list = []

    def _enter(self, module, args):
        super()._enter(module, args)
        self._tokens.append(spans.begin(self.current, info=_MODULE))

    def _leave(self, module, args, result):
        super()._leave(module, args, result)
        if self._tokens:
            spans.end(self._tokens.pop())


class MemoryRecorder:
    """Records which blocks of memory a block of this thread's program takes.

    Attributes:
        blocks: a `MemoryBlock` for each block that was taken, once it is over.
        held_before: bytes that were held when it began.
        peak: the most bytes that were held at once.
        peak_ns: when that was, on the clock of the blocks.
        steps: when each step ended.

    Raises:
        RuntimeError: a profiler records this thread.

    >>> import rushlight as rl
    >>> with MemoryRecorder() as memory:
    ...     x = rl.ones(256, 1024)
    ...     _ = (x * 2).sum()
    >>> memory.peak - memory.held_before >= 2 * 256 * 1024 * 4
    True
    >>> [use.name for use in memory.by("operator")][:2]
    ['aten::mul', 'aten::ones']
    """

    def __init__(self):
        self.blocks: list = []
        self.steps: list = []
        self.held_before = self.peak = self.peak_ns = 0
        self._modules = _ModuleSpans(rushlight)

    def __enter__(self):
        if spans.is_recording():
            raise RuntimeError(
                "MemoryRecorder: a profiler records this thread\n"
                "  remedy: leave its block first"
            )
        self._modules.start()
        profiling.configure(stacks=True)
        self.held_before = memory_counts()["requested"]
        spans.start(memory=True, stacks=True)
        return self

    def __exit__(self, *raised):
        rows = spans.stop()
        profiling.configure()
        self._modules.stop()
        self._take(rows)
        return False

    def step(self):
        """Ends a step: blocks of earlier steps that stay are `leaks`."""
        self.steps.append(time.monotonic_ns())

    def _take(self, rows):
        """Makes blocks of a recording's rows."""
        reader = _Reader(self.steps)
        for row in rows:
            reader.read(row)
        self.blocks = reader.blocks
        held = most = self.held_before
        self.peak_ns = rows[0][4] if rows else 0
        for moment, change in reader.changes:
            held += change
            if held > most:
                most, self.peak_ns = held, moment
        self.peak = most

    def live(self, moment=None):
        """The recorded blocks that are held at a moment, the largest first.

        Args:
            moment: on the clock of the blocks; None: when most memory was held.
        """
        moment = self.peak_ns if moment is None else moment
        found = [block for block in self.blocks if block.is_live(moment)]
        return sorted(found, key=lambda block: -block.size)

    def by(self, kind):
        """What each line, module or operator took, those that the peak is made of first.

        Args:
            kind: ``"line"``, ``"module"`` or ``"operator"``.

        Returns:
            a list of `MemoryUse`.

        Raises:
            ValueError: another kind.
        """
        if kind not in KINDS:
            raise ValueError(f"by: {kind!r} is none of {', '.join(KINDS)}")
        groups = defaultdict(list)
        for block in self.blocks:
            groups[getattr(block, kind)].append(block)
        found = [self._use(name, blocks) for name, blocks in groups.items()]
        return sorted(found, key=lambda use: (-use.at_peak, -use.largest, use.name))

    def _use(self, name, blocks):
        changes = [(block.start_ns, block.size) for block in blocks]
        changes += [(b.end_ns, -b.size) for b in blocks if b.end_ns is not None]
        held = largest = 0
        for _, change in sorted(changes):
            held += change
            largest = max(largest, held)
        return MemoryUse(
            name,
            sum(b.size for b in blocks if b.is_live(self.peak_ns)),
            largest,
            sum(block.size for block in blocks),
            len(blocks),
            sum(block.size for block in blocks if block.end_ns is None),
        )

    def table(self, kind="line", limit=10):
        """What `by` tells, as text.

        Args:
            kind: ``"line"``, ``"module"`` or ``"operator"``.
            limit: rows at most.
        """
        rows = [(kind, "at peak", "largest", "taken", "blocks", "left")]
        for use in self.by(kind)[:limit]:
            sizes = (use.at_peak, use.largest, use.taken, use.blocks, use.left)
            rows.append((use.name or "-", *(f"{size:,}" for size in sizes)))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = []
        for name, *figures in rows:
            cells = [f.rjust(w) for f, w in zip(figures, widths[1:], strict=True)]
            lines.append("  ".join([name.ljust(widths[0]), *cells]))
        return "\n".join(lines)

    def leaks(self):
        """Lines of which blocks of two steps or more are still held, largest first.

        The first step, in which optimizers and caches take what they keep, does not
        count, nor does the last, whose blocks may still be in use.
        """
        last = len(self.steps)
        groups = defaultdict(list)
        for block in self.blocks:
            if block.end_ns is None and 0 < block.step < last:
                groups[block.line, block.module, block.operator].append(block)
        found = []
        for key, blocks in groups.items():
            steps = tuple(sorted({block.step for block in blocks}))
            if len(steps) > 1:
                size = sum(block.size for block in blocks)
                found.append(MemoryLeak(*key, steps, size))
        return sorted(found, key=lambda leak: -leak.size)

    def snapshot(self):
        """All that was recorded, in types that JSON knows."""
        return {
            "held_before": self.held_before,
            "peak": self.peak,
            "peak_ns": self.peak_ns,
            "steps": list(self.steps),
            "blocks": [block._asdict() for block in self.blocks],
        }

    def dump(self, path):
        """Writes `snapshot` as JSON.

        Args:
            path: the file; one that ends in ``.gz`` is compressed.
        """
        write_text(path, json.dumps(self.snapshot()))

    def panel(self):
        """The part of a page that shows it."""
        return memory_panel(self)


class _Reader:
    """Makes blocks of a recording's rows, one after the other."""

    def __init__(self, steps):
        self.steps = steps
        self.open: dict = {}  # thread -> the spans around what comes next
        self.forward: dict = {}  # sequence number -> line and module of the forward call
        self.held: dict = {}  # address -> place of its block
        self.blocks: list = []
        self.changes: list = []  # when, and by how much memory grew

    def read(self, row):
        kind, what, info, thread, start, end, sequence, address = row
        stack = self.open.setdefault(thread, [])
        while stack and stack[-1][5] <= start:
            stack.pop()
        if kind != collect.MEMORY:
            stack.append(row)
            if kind == collect.OPERATOR and sequence >= 0:
                self.forward[sequence] = _line_of(info[1]), _module_of(stack)
            return
        self.changes.append((start, sequence))
        if sequence > 0:
            self.held[address] = len(self.blocks)
            self.blocks.append(self.block(start, sequence, info, stack))
        elif address in self.held:
            place = self.held.pop(address)
            self.blocks[place] = self.blocks[place]._replace(end_ns=start)

    def block(self, moment, size, lines, stack):
        operator = next(
            (row[1] for row in reversed(stack) if row[0] == collect.OPERATOR), None
        )
        node = next(
            (row for row in reversed(stack) if row[0] == collect.BACKWARD), None
        )
        line, module = _line_of(lines), _module_of(stack)
        if node is not None:
            line, module = self.forward.get(node[6], (line, module))
        return MemoryBlock(
            size,
            moment,
            None,
            line,
            module,
            _name_of(operator),
            node is not None,
            sum(end <= moment for end in self.steps),
            tuple(_users_lines(lines)),
        )


def _name_of(operator):
    if operator is None:
        return ""
    return f"{operator.namespace}::{operator.name.partition('.')[0]}"


def _module_of(stack):
    """The path of the innermost module among spans."""
    for row in reversed(stack):
        if row[0] == collect.ANNOTATION and row[2] == _MODULE:
            return row[1]
    return ""


def _users_lines(stack):
    """``file:line: text`` of each line outside of the package, innermost first."""
    for path, number, _ in stack or ():
        if path.startswith(_PACKAGE) or (
            path.startswith("<") and not path.startswith("<stdin")
        ):
            continue
        text = linecache.getline(path, number).strip()
        place = f"{os.path.basename(path)}:{number}"
        yield f"{place}: {text}" if text else place


def _line_of(stack):
    return next(_users_lines(stack), "")


def memory_page(memory, path=None, title="Memory"):
    """A page of a recorded run's memory: over time, and what is held at any moment.

    A click on the picture lists the blocks that were held then, with their lines of
    Python; at first it is the peak.

    Args:
        memory: a `MemoryRecorder` whose block is over.
        path: the file to write, if any.
        title: what stands above.

    Returns:
        the page's text.

    >>> import rushlight as rl
    >>> with MemoryRecorder() as memory:
    ...     x = rl.ones(1000)
    >>> "aten::ones" in memory_page(memory)
    True
    """
    return document(title, [memory.panel()], path)
