"""Runs a grid's functions in their meaning: blocks, threads, barriers, shared memory.

Every thread is a generator that yields where it must wait: at a barrier for its block, at
an exchange for its warp. Accesses to memory are noted, and those that no barrier orders
are refused, whatever order they happened to come in here: two threads at one element, one
of them writing.
"""

from __future__ import annotations

import inspect

import numpy as np

from rushlight.codegen.emit import python, reference_groups
from rushlight.codegen.emit.reference import EXTRA, NAMESPACE, Element, Memory
from rushlight.codegen.emit.reference_groups import GROUP, Units
from rushlight.ir import expr as ir
from rushlight.ir.expr import SHORT_NAMES

WARP = 32
COPIED = 16  # bytes of one copy beside what threads do


class RaceError(RuntimeError):
    """Two threads reach one element, one of them writes, and nothing orders them."""


class DivergenceError(RuntimeError):
    """Threads that must meet do not: some wait for what the others never reach."""


class Watched(Memory):
    """Elements whose accesses are noted in a grid's log."""

    def __init__(self, address, dtype, grid):
        super().__init__(address, dtype)
        self.grid = grid

    def __getitem__(self, index):
        if not np.ndim(index):
            self.grid.note(self.address + int(index) * self.dtype.itemsize, False)
        return super().__getitem__(index)

    def __setitem__(self, index, value):
        if not np.ndim(index):
            self.grid.note(self.address + int(index) * self.dtype.itemsize, True)
        super().__setitem__(index, value)

    def join(self, op, index, value):
        place = self.address + int(index) * self.dtype.itemsize
        self.grid.log.note(place, True, joins=True)
        super().join(op, index, value)

    def offset(self, count):
        return Watched(self.address + int(count), self.dtype, self.grid)


class Access:
    """Who has been at an element since it was last ordered."""

    __slots__ = ("joiners", "readers", "shown", "writer")

    def __init__(self):
        self.writer, self.readers, self.joiners = None, set(), set()
        self.shown = True  # whether units see what was written


class Log:
    """The accesses of one launch.

    A time is a block, a thread, how many barriers, and how many of its warp's alone.
    """

    def __init__(self):
        self.seen, self.now = {}, None
        self.hidden: dict = {}  # what threads wrote since they last showed it to units

    def note(self, address, writes, shown=False, asked=False, joins=False):
        """One access by the thread that runs now.

        Args:
            joins: whether it is atomic: others' may come between.
            shown: whether it is one by units.
            asked: whether it is a copy's that was not waited for, and cannot be shown.

        Raises:
            RaceError: nothing orders it after another thread's.
        """
        access = self.seen.setdefault(address, Access())
        others = [access.writer] if access.writer else []
        if writes:
            others += access.readers
        if not joins:
            others += access.joiners
        for other in others:
            if not self.ordered(other):
                block, thread = other[:2]
                raise RaceError(
                    f"thread {self.now[1]} of block {self.now[0]} "
                    f"{'writes' if writes else 'reads'} an element that thread "
                    f"{thread} of block {block} "
                    f"{'writes' if other == access.writer else 'reads'}, "
                    "with no barrier between"
                )
        if shown and not access.shown:
            raise RaceError(
                f"units read what thread {access.writer[1]} of block {access.writer[0]} "
                "wrote and did not show to them"
            )
        if joins:
            access.joiners.add(self.now)
        elif writes:
            access.writer, access.readers, access.shown = self.now, set(), False
            access.joiners.clear()
            if not asked:
                self.hidden.setdefault(self.now[:2], []).append((access, self.now))
        else:
            access.readers.add(self.now)

    def show(self):
        """Lets units see what this thread wrote."""
        for access, wrote in self.hidden.pop(self.now[:2], ()):
            access.shown |= access.writer == wrote

    def ordered(self, other):
        """Whether an access came before this thread's: its own, or before a barrier."""
        block, thread, time, synced = other
        if block != self.now[0]:
            return False
        alike = thread // WARP == self.now[1] // WARP and synced < self.now[3]
        return alike or thread == self.now[1] or time < self.now[2]


class Thread:
    """What a thread knows of its place; also where memory is noted."""

    def __init__(self, log, arrays, thread, block, threads, blocks):
        self.log, self.arrays = log, arrays
        self.thread, self.block = np.int64(thread), np.int64(block)
        self.threads, self.blocks = np.int64(threads), np.int64(blocks)
        self.asked, self.groups = [], []  # copies since the last group; those before

    def note(self, address, writes):
        self.log.note(address, writes)

    def copy_async(self, target, index, source, place, n_bytes):
        """Asks for a copy: read and written from now on until it is waited for."""
        size = target.dtype.itemsize
        copy = (
            target.offset(int(index) * size),
            source.offset(int(place) * size),
            int(n_bytes) // size,
            COPIED // size,
        )
        self.touch(copy, asked=True)
        self.asked.append(copy)

    def touch(self, copy, asked=False):
        """Notes what a copy reads and writes."""
        target, source, count, room = copy
        size = target.dtype.itemsize
        for n in range(room):
            if n < count:
                self.note(source.address + n * size, False)
            self.log.note(target.address + n * size, True, asked=asked)

    def commit_copies(self):
        """The copies that were asked for are a group."""
        self.groups.append(self.asked)
        self.asked = []

    def await_copies(self, pending):
        """Makes the copies of all groups but the last ones."""
        while len(self.groups) > pending:
            for copy in self.groups.pop(0):
                self.touch(copy)
                target, source, count, room = copy
                for n in range(room):
                    value = source.view(n)[0] if n < count else 0
                    target.view(n)[0] = value

    def show_units(self):
        self.log.show()

    def shared(self, element, size, name):
        """The block's array of a name."""
        if name not in self.arrays:
            self.arrays[name] = np.zeros(size, element.dtype)
        return Watched(self.arrays[name].ctypes.data, element.dtype, self)


BARRIER = ("barrier",)


def exchange(value, distance):
    """What a thread yields to be given another lane's value."""
    return "exchange", int(distance), value


WARP_BARRIER = ("warp",)


def match(value, bits):
    """What a thread yields to be told which lanes have its value."""
    return "match", int(bits), int(value) & (1 << int(bits)) - 1


def unit_product(place, packed, *values):
    """What a thread yields to be given one sum of its warp's product."""
    if packed is not None:
        halves = [half for word in values[:-4] for half in halves_of(word, packed)]
        values = *halves, *values[-4:]
    return "multiply", int(place), values


def halves_of(word, kind):
    """The two halves of a word."""
    return np.array([word], np.uint32).view(Element(kind).dtype)


def packed_float16(low, high):
    """Two floats, rounded to halves, as a word."""
    return np.array([low, high], np.float16).view(np.uint32)[0]


def packed_bfloat16(low, high):
    return np.array([low, high]).astype(Element("bfloat16").dtype).view(np.uint32)[0]


def exp2_approx(x):
    """Two to the power of a float; zero where that is subnormal."""
    return np.float32(0 if x < -126 else np.exp2(np.float32(x)))


def unit_rows(grid, transposed, pointer, index):
    """What a thread yields to be given its words of four blocks: a row of one of them."""
    pointer = Watched(pointer.address, pointer.dtype, grid)
    row = np.array([pointer[int(index) + n] for n in range(8)]).view(np.uint16)
    return "rows", bool(transposed), row


def words_of(rows, transposed):
    """All lanes' words of four blocks of 8 rows each."""
    blocks = np.array(rows).reshape(4, 8, 8)
    if transposed:
        blocks = blocks.transpose(0, 2, 1)
    return np.ascontiguousarray(blocks).view(np.uint32).reshape(4, WARP).T


def multiplied(shares):
    """A warp's product of matrices from all lanes' shares: each lane's four sums.

    A lane is the ``pair`` of its ``group``: PTX calls them threadID_in_group and groupID.
    """
    halves = len(shares[0]) == 16
    depth = 16 if halves else 8
    left, right = np.zeros((16, depth)), np.zeros((depth, 8))
    added = np.zeros((16, 8))
    for lane, values in enumerate(shares):
        group, pair = divmod(lane, 4)
        values = [float(v) if halves else in_tf32(v) for v in values[:-4]] + [
            float(v) for v in values[-4:]
        ]
        for n in range(8 if halves else 4):
            if halves:
                row, k = group + 8 * (n // 2 % 2), 2 * pair + n % 2 + 8 * (n // 4)
            else:
                row, k = group + 8 * (n % 2), pair + 4 * (n // 2)
            left[row, k] = values[n]
        for n, value in enumerate(values[8:12] if halves else values[4:6]):
            k = 2 * pair + n % 2 + 8 * (n // 2) if halves else pair + 4 * n
            right[k, group] = value
        for n, value in enumerate(values[-4:]):
            added[group + 8 * (n // 2), 2 * pair + n % 2] = value
    result = (left @ right + added).astype(np.float32)
    return [
        [result[lane // 4 + 8 * (n // 2), 2 * (lane % 4) + n % 2] for n in range(4)]
        for lane in range(WARP)
    ]


def in_tf32(value):
    """A float32 with ten binary digits after the point, rounded to the nearest."""
    bits = np.float32(value).view(np.uint32)
    return float(((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32))


def run(function: ir.Function, operands, blocks, threads) -> None:
    """Runs a function of a grid.

    Args:
        function: whose ``grid`` is set.
        operands: for each parameter the address of an array, or an integer.
        blocks: how many blocks there are.
        threads: of each block; whole warps where lanes exchange values.

    Raises:
        RaceError: accesses to an element are not ordered.
        DivergenceError: some threads of a block or warp never meet the others.
    """
    source = python.render(function)
    log = Log()
    keep: list = []

    def pointer(value, element):
        if isinstance(value, Watched):
            return Watched(value.address, element.dtype, value.grid)
        return NAMESPACE["pointer"](value, element)

    scope = dict(NAMESPACE) | {
        "exchange": exchange, "barrier": BARRIER, "pointer": pointer,
        "match": match, "warp_barrier": WARP_BARRIER,
        "unit_product": unit_product, "unit_rows": unit_rows,
        "packed_float16": packed_float16, "packed_bfloat16": packed_bfloat16,
        "exp2_approx": exp2_approx,
        "group_product": reference_groups.group_product,
        "await_products": reference_groups.await_products,
    }  # fmt: skip
    for dtype in EXTRA:
        if SHORT_NAMES[dtype] not in source:
            continue
        scope[SHORT_NAMES[dtype]] = Element(dtype)
    exec(compile(source, f"<{function.name}>", "exec"), scope)
    body = scope[function.name]
    for block in range(blocks):
        arrays: dict = {}
        keep.append(arrays)
        running = {}
        for number in range(threads):
            place = Thread(log, arrays, number, block, threads, blocks)
            values = [
                Watched(value, scope[str(var.type.element)].dtype, place)
                if isinstance(var.type, ir.Pointer)
                else np.int64(value)
                for var, value in zip(function.parameters, operands, strict=True)
            ]
            log.now = (block, number, 0, 0)
            with np.errstate(all="ignore"):
                made = body(place, *values)
            if inspect.isgenerator(made):
                running[number] = made
        _run_block(log, block, threads, running)


def _run_block(log, block, threads, running):
    """Advances a block's threads until all have ended."""
    waiting: dict = {}  # what each thread waits at, and what it is given next
    gifts = dict.fromkeys(running)
    groups = [Units(n, log) for n in range(threads // GROUP)]
    time, synced_by_warp = (
        0,
        [0] * -(-threads // WARP),
    )  # of the block, and of each warp
    while running:
        for number in list(running):
            if number in waiting:
                continue
            log.now = (block, number, time, synced_by_warp[number // WARP])
            try:
                with np.errstate(all="ignore"):
                    waiting[number] = running[number].send(gifts[number])
                gifts[number] = None
            except StopIteration:
                del running[number]
        if not running:
            return
        if all(asked[0] == "barrier" for asked in waiting.values()):
            if len(waiting) < threads:
                raise DivergenceError(
                    f"{len(waiting)} of {threads} threads of block {block} wait at a "
                    "barrier; the others have ended"
                )
            time += 1
            waiting.clear()
            continue
        served = _exchange(waiting, gifts, threads, synced_by_warp)
        for units in groups:
            served |= _products(waiting, gifts, units, block, time)
        if not served:
            raise DivergenceError(
                f"threads of block {block} wait for each other in different places"
            )


def _exchange(waiting, gifts, threads, synced_by_warp):
    """Serves the warps all of whose lanes have arrived; whether there was one."""
    served = False
    for first in range(0, threads, WARP):
        lanes = range(first, first + WARP)
        asked = [waiting.get(lane, ("ended",)) for lane in lanes]
        what = asked[0][:2]
        known = what[0] in ("exchange", "multiply", "rows", "match", "warp")
        if not known or any(o[:2] != what for o in asked):
            continue
        if what[0] == "rows":
            words = words_of([one[2] for one in asked], what[1])
            gifts |= {lane: words[lane - first] for lane in lanes}
        elif what[0] == "warp":
            synced_by_warp[first // WARP] += 1
        elif what[0] == "match":
            values = [one[2] for one in asked]
            for lane, own in zip(lanes, values, strict=True):
                word = sum((v == own) << n for n, v in enumerate(values))
                gifts[lane] = np.uint32(word)
        elif what[0] == "multiply":
            sums = multiplied([one[2] for one in asked])
            gifts |= {lane: sums[lane - first][what[1]] for lane in lanes}
        else:
            for lane, one in zip(lanes, asked, strict=True):
                gifts[lane] = waiting[first + (lane - first ^ one[1])][2]
        for lane in lanes:
            del waiting[lane]
        served = True
    return served


def _products(waiting, gifts, units, block, time):
    """Serves a group all of whose threads have arrived; whether they had."""
    first = units.number * GROUP
    asked = [waiting.get(n, ("ended",)) for n in range(first, first + GROUP)]
    kind = asked[0][0]
    if kind not in ("product", "products") or any(o[:3] != asked[0][:3] for o in asked):
        return False
    sums = np.stack([one[3] for one in asked])
    given = units.serve(*asked[0][:3], sums, block, time)
    for n, own in enumerate(given, first):
        gifts[n] = own
        del waiting[n]
    return True
