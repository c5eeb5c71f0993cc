"""Kernels of the framework for cards: the host's loops, compiled for them.

A front (`rushlight.codegen.front`) that is asked for a kernel while the target is a card
gives a `DeviceKernel`. It holds the loops; for each layout of a launch (how many loops,
which operands are numbers, whether indices fit 32 bits) there is an entry of its own,
made when it is first needed and kept on disk as machine code.
"""

from __future__ import annotations

import os
import threading
from array import array
from dataclasses import replace

from rushlight.backends.cpu import cache
from rushlight.backends.cpu.launch import count_launch
from rushlight.backends.nvidia import contexts, launch, modules

THREADS = 256
WAVES = 16  # blocks for each multiprocessor, at most: the rest is looped over
NARROW = 1 << 31
WARP = 32
WIDE_FROM = 1 << 16  # elements, from which on a thread takes several: before, all fit
EACH = 4  # values of a row that a thread takes at least, where there is a block for it
MOST_THREADS = 512  # of a block for a row
MOST_BLOCKS = 1 << 16
MANY = 1024  # rows side by side that a thread each is enough for

_kernels: dict = {}
_lock = threading.Lock()


def native(name, digest, lower):
    """The kernel of a loop-IR function; the same one for the same description.

    Args:
        name: what the function is called, which also tells its specialisations apart.
        digest: of all that decides what it computes.
        lower: called without arguments when it is first needed; returns the function.
    """
    key = (name, digest)
    found = _kernels.get(key)
    if found is None:
        with _lock:
            found = _kernels.setdefault(key, DeviceKernel(name, digest, lower))
    return found


class DeviceKernel:
    """A kernel on cards; its machine code is made layout by layout.

    Args:
        name: what errors and traces call it.
        digest: of all that decides what it computes.
        lower: returns its loops.

    Attributes:
        grid: of a kernel over rows, returns its function of a grid; see `Front.grid`.
        target: the only generation of cards that it is for, or None for all.
        widths: of an elementwise kernel, the bytes of each operand's elements.
        outputs: of an elementwise kernel, how many operands are written.
    """

    def __init__(self, name, digest, lower):
        self.name = name
        self.digest = digest
        self.lower = lower
        self.loops = None
        self.grid = None
        self.target = None
        self.widths, self.outputs = (), 0
        self.widths_found = {}

    def __repr__(self):
        return f"<DeviceKernel {self.name}>"

    def function(self):
        """Its loops, for a card."""
        if self.loops is None:
            from rushlight.codegen.target import NVIDIA, using

            with using(NVIDIA):
                self.loops = self.lower()
        return self.loops

    def handle(self, card, layout, entry, build, shared=0):
        """The driver's handle of an entry on a card.

        Args:
            shared: bytes of shared memory that its launches ask for.
        """
        found = card.handles.get((self, layout))
        if found is None:
            key = cache.key_digest((self.name, self.digest, layout), entry)
            made = card.modules.function(key, entry, build)
            if shared:
                modules.allow_shared(card, made, shared)
            found = int(made)
            card.handles[self, layout] = found
        return found

    def run_elements(self, card, addresses, sizes, strides, numbers, total):
        """Runs an elementwise kernel in this thread's queue.

        Args:
            card: where.
            addresses: the operands' first elements, outputs first; None for a number.
            sizes: of the loops, innermost first.
            strides: for each operand its byte steps along them; None for a number.
            numbers: 16 bytes for each operand that is a number.
            total: how many elements.
        """
        from rushlight.codegen.emit import device

        places = tuple(k for k, a in enumerate(addresses) if a is None)
        ndim, count = len(sizes), len(addresses)
        narrow = total < NARROW
        wide = None
        if total >= WIDE_FROM:
            wide = self.wide(sizes, strides)
            if wide and not all(
                a % device.LOAD == 0 for a, w in zip(addresses, wide.widths) if w
            ):
                wide = None
        layout = (ndim, places, narrow, wide)

        def build():
            return device.emit_elements(
                self.function(), count, ndim, places, narrow, wide
            )

        entry = device.elements_name(self.name, ndim, places, narrow, wide)
        handle = self.handle(card, layout, entry, build)
        each = wide.each if wide else 1
        ints = [sizes[0] // each, *sizes[1:]]
        for row in strides:
            ints += (row[0] * each, *row[1:]) if row else (0,) * ndim
        if ndim == 1:
            ints.append(total)
        self.launch(
            card,
            launch.launch_elements,
            handle,
            max(total > 0, total // each),
            tuple(a or 0 for a in addresses),
            tuple(ints),
            numbers,
            total // each,
        )

    def wide(self, sizes, strides):
        """How a thread may take several neighbours at once, as far as steps tell.

        Args:
            sizes: of the loops, innermost first.
            strides: for each operand its byte steps along them; None for a number.
        """
        try:
            return self.widths_found[sizes, strides]
        except KeyError:
            found = self.widths_found[sizes, strides] = self.find_wide(sizes, strides)
            return found

    def find_wide(self, sizes, strides):
        """A `Wide`, or None where elements are no neighbours or fill no loads."""
        from rushlight.codegen.emit import device

        widths = []
        for row, width in zip(strides, self.widths):
            if row is None or row[0] == 0:
                widths.append(0)
            elif row[0] == width:
                widths.append(width)
            else:
                return None
        if not any(widths) or 0 in widths[: self.outputs]:
            return None
        each = min(device.MOST_EACH, device.LOAD // max(widths))
        if each < 2 or (len(sizes) > 1 and sizes[0] % each):
            return None
        for row, width in zip(strides, widths):
            if width and any(step % (each * width) for step in row[1:]):
                return None
        return device.Wide(each, self.outputs, tuple(widths))

    def run_lists(self, card, operands, lists, counts, numbers, fault=0):
        """Runs an elementwise kernel over lists of tensors in this thread's queue.

        Args:
            card: where.
            operands: for each operand a list's number and the bytes from one element to
                the next, or None for a number.
            lists: addresses of as many tensors each.
            counts: how many elements the tensors have.
            numbers: 16 bytes for each operand that is a number.
            fault: where the kernel notes what it refuses; the card's place by default.
        """
        from rushlight.codegen.emit import device

        wide = None
        if sum(counts) >= WIDE_FROM:
            rows = tuple(None if item is None else item[1:] for item in operands)
            wide = self.wide((sum(counts),), rows)
            read = {item[0] for item in operands if item and item[1]}
            if any(a % device.LOAD for row in read for a in lists[row]):
                wide = None

        def build():
            return device.emit_lists(self.function(), operands, wide)

        entry = device.lists_name(self.name, operands, wide)
        handle = self.handle(card, (operands, wide), entry, build)
        most = device.most_tensors(len(lists))
        chosen = [n for n, count in enumerate(counts) if count]
        for begin in range(0, len(chosen), most):
            part = chosen[begin : begin + most]
            table = array("q", bytes(8 * device.ROOM))
            pieces = 0
            for place, n in enumerate(part):
                table[place] = pieces
                table[most + place] = counts[n]
                for row, addresses in enumerate(lists):
                    table[(2 + row) * most + place] = addresses[n]
                pieces += -(-counts[n] // device.PIECE)
            card.enter()
            limit = card.properties.multi_processor_count * WAVES
            stream = contexts.current_stream(card)
            code = launch.launch_lists(
                *(handle, stream.handle, min(pieces, limit), THREADS),
                *(table.tobytes(), numbers, len(part), pieces),
                fault or card.fault_address(),
            )
            self.launched(card, code, stream)

    def run_spans(self, card, addresses, ints, total, chunk=1):
        """Runs a kernel over its parallel axis in this thread's queue.

        Args:
            card: where.
            addresses: the data pointers; 0 where there is none.
            ints: sizes, strides and parameters, as the kernel lays them out.
            total: the length of the axis.
            chunk: how much of it a thread takes at a time.
        """
        from rushlight.codegen.emit import device

        entry = device.entry_name(self.name)
        handle = self.handle(card, "spans", entry, lambda: device.emit(self.function()))
        self.launch(
            card,
            launch.launch_spans,
            handle,
            -(-total // chunk),
            addresses,
            ints,
            total,
            chunk,
        )

    def run_rows(self, card, addresses, ints, rows, length, beside=False, held=()):
        """Runs a kernel over rows in this thread's queue.

        A row is a block's, or a thread's where rows are short, or where many lie side by
        side: that depends on sizes alone, and so do the bits of its sums.

        Args:
            card: where.
            addresses: the data pointers, outputs first.
            ints: as the kernel lays them out.
            rows: how many there are.
            length: how many values each has.
            beside: whether the elements of neighbouring rows are neighbours.
            held: pairs of positions; see `emit.device.emit_grid`.
        """
        from rushlight.codegen.emit import device
        from rushlight.codegen.lower import lower
        from rushlight.codegen.target import NVIDIA, using

        together = length >= WARP and not (beside and rows >= MANY)
        name = f"{self.name}_{'blocks' if together else 'threads'}"

        def build():
            with using(NVIDIA):
                made = lower(replace(self.grid(together=together), name=name))
            return device.emit_grid(made, held)

        entry = device.entry_name(name)
        handle = self.handle(card, (together, tuple(held)), entry, build)
        shape = None
        if together:
            threads = min(MOST_THREADS, -(-length // (WARP * EACH)) * WARP)
            shape = min(rows, MOST_BLOCKS), threads
        self.launch(
            *(card, launch.launch_spans, handle, rows, addresses, ints, rows, 1),
            shape=shape,
        )

    def run_blocks(self, card, addresses, ints, blocks, threads, held=(), shared=0):
        """Runs a function of a grid whose axis is divided among blocks.

        Args:
            card: where.
            addresses: the data pointers.
            ints: as the kernel lays them out.
            blocks: the length of the axis.
            threads: of each block.
            held: pairs of positions; see `emit.device.emit_grid`.
            shared: bytes of shared memory of a block, where they are a launch's.
        """
        from rushlight.codegen.emit import device
        from rushlight.codegen.target import NVIDIA

        entry = device.entry_name(self.name)

        def build():
            return device.emit_grid(self.function(), held, self.target or NVIDIA)

        handle = self.handle(card, tuple(held), entry, build, shared)
        self.launch(
            *(card, launch.launch_spans, handle, blocks, addresses, ints, blocks, 1),
            shape=(min(blocks, MOST_BLOCKS), threads),
            shared=shared,
        )

    def launch(self, card, function, handle, turns, *operands, shape=None, shared=0):
        """Chooses a grid, launches, and looks at the driver's answer."""
        if turns <= 0:
            return
        card.enter()
        most = card.properties.multi_processor_count * WAVES
        grid = min(-(-turns // THREADS), most)
        threads = THREADS if turns >= THREADS else -(-turns // 32) * 32
        grid, threads = shape or (grid, threads)
        stream = contexts.current_stream(card)
        more = (shared,) if shared else ()
        code = function(
            handle, stream.handle, grid, threads, *operands, card.fault_address(), *more
        )
        self.launched(card, code, stream)

    def launched(self, card, code, stream):
        """Looks at the driver's answer to a launch."""
        count_launch()
        if code:
            card.driver.refuse(code, f"cuLaunchKernel({self.name})")
        if BLOCKING:
            stream.synchronize()


BLOCKING = os.environ.get("CUDA_LAUNCH_BLOCKING") == "1"
