"""Kernels of the framework for devices: the host's loops, compiled for them.

A front (`rushlight.codegen.frontend.front`) that is asked for a kernel while the target is a device
gives a `DeviceKernel`. It holds the loops; for each layout of a launch (how many loops,
which operands are numbers, whether indices fit 32 bits) there is an entry of its own,
made when it is first needed and kept on disk as machine code.
"""

import dataclasses
import os
import threading
from array import array

from rushlight.core.device import Device
from rushlight.core.dtype import by_code
from rushlight.runtime.cpu import code_cache
from rushlight.runtime.cpu.launch import count_launch
from rushlight.runtime.cuda import batched_launch, contexts, graphs, launch
from rushlight.runtime.cuda import code_cache as device_code_cache
from rushlight.runtime.cuda.launch_sizes import (
    LEAST_PART,
    MOST_PARTS,
    THREADS,
    WARP,
    WAVES,
    grid_for,
    keep_row,
    plan_parts,
    plan_threads,
    threads_for,
)

NARROW = 1 << 31
NARROW_INDEX = 1 << 29  # as `LIMIT` of `narrow_divisions`
WIDE_FROM = 1 << 16  # elements, from which on a thread takes several: before, all fit
MOST_BLOCKS = 1 << 16
MANY = 1024  # rows side by side that a thread each is enough for
LONG_RUN = 1 << 14  # values of a row, from which on each thread of its block has many
LONG = 1 << 16  # a row of so many values is many blocks', where few are
LEAST_STRIDED = 8  # rows side by side that fill what a device reads at once

ALIGNED = 16  # as `LOAD` of `gpu_entries`
KEPT = 128  # plans of a kernel

NOT_YET = object()
WORD = 4  # the code of int64, which every leaf of a state fits

_kernels: dict = {}
_named: dict = {}  # name -> the digest of the kernel that has it to itself
_lock = threading.Lock()


def native(name, digest, lower):
    """The kernel of a loop-IR function; the same one for the same description.

    Modules of a program are linked into one, where two kernels cannot have one name: the
    second is called by its digest, too.

    Args:
        name: what the function is called, which also tells its specialisations apart.
        digest: of all that decides what it computes.
        lower: called without arguments when it is first needed; returns the function.
    """
    key = (name, digest)
    found = _kernels.get(key)
    if found is None:
        with _lock:
            if _named.setdefault(name, digest) != digest:
                name = f"{name}_{digest[:8]}"
            found = _kernels.setdefault(key, DeviceKernel(name, digest, lower))
    return found


class DeviceKernel(launch.CachedKernel):
    """A kernel on devices; its machine code is made layout by layout.

    Args:
        name: what errors and traces call it.
        digest: of all that decides what it computes.
        lower: returns its loops.

    Attributes:
        grid: of a kernel over rows, returns its function of a grid; see `Front.grid`.
        parts: the same of one whose rows are many blocks'; see `Front.parts`.
        find_parted: tells how, or that they are not; see `Front.parted`.
        registers: tells what keeping a row takes; see `Front.registers`.
        target: the only target that it is made for, or None for that of each device.
        widths: of an elementwise kernel, the bytes of each operand's elements.
        outputs: of an elementwise kernel, how many operands are written.
    """

    def __init__(self, name, digest, lower):
        super().__init__()
        self.name = name
        self.digest = digest
        self.lower = lower
        self.loops = None
        self.grid = self.parts = self.find_parted = self.registers = None
        self.target = None
        self.widths, self.outputs = (), 0
        self.widths_found = {}
        self.parted_found = NOT_YET

    def __repr__(self):
        return f"<DeviceKernel {self.name}>"

    def function(self):
        """Its loops, for a device."""
        if self.loops is None:
            from rushlight.codegen.target import NVIDIA, using

            with using(NVIDIA):
                self.loops = dataclasses.replace(self.lower(), name=self.name)
        return self.loops

    def handle(self, ctx, layout, entry, build, shared=0):
        """The driver's handle of an entry on a device.

        Args:
            shared: bytes of shared memory that its launches ask for.
        """
        found = ctx.handles.get((self, layout))
        if found is None:
            from rushlight.codegen.target import using

            target = self.target or ctx.target
            facts = self.name, self.digest, layout, target.ptx
            with using(target):  # the key's environment is the device's, not the host's
                key = code_cache.key_digest(facts, entry)

            def build_for_target():
                with using(target):
                    return build()

            made = ctx.modules.function(key, entry, build_for_target)
            if shared:
                device_code_cache.allow_shared(ctx, made, shared)
            found = int(made)
            ctx.block_limits[found] = device_code_cache.most_threads(ctx, made)
            ctx.handles[self, layout] = found
        return found

    def run_elements(self, ctx, addresses, sizes, strides, numbers, total):
        """Runs an elementwise kernel in this thread's queue.

        Args:
            device: where.
            addresses: the operands' first elements, outputs first; None for a number.
            sizes: of the loops, innermost first.
            strides: for each operand its byte steps along them; None for a number.
            numbers: 16 bytes for each operand that is a number.
            total: how many elements.
        """
        odd = tuple(None if a is None else a % ALIGNED for a in addresses)
        key = ctx.serial, sizes, strides, total, odd
        plan = self.plan(
            key, lambda: self.plan_elements(ctx, addresses, sizes, strides, total)
        )
        plan.run(tuple(addresses), numbers)

    def plan(self, key, make):
        """The plan of launches that are alike, made at the first of them."""
        found = self.plans.get(key)
        if found is None:
            if len(self.plans) >= KEPT:
                self.plans.clear()
            found = self.plans[key] = make()
        return found

    def plan_elements(self, ctx, addresses, sizes, strides, total):
        """The plan of an elementwise launch; see `run_elements`.

        Where operands begin matters as far as it tells whether they may be loaded by
        several elements at once.
        """
        from rushlight.codegen.emit import device
        from rushlight.codegen.schedule import gpu_entries

        positions = tuple(k for k, a in enumerate(addresses) if a is None)
        ndim, count = len(sizes), len(addresses)
        narrow = total < NARROW
        wide = None
        if total >= WIDE_FROM:
            wide = self.wide(sizes, strides)
            if wide and not all(
                a % gpu_entries.LOAD == 0 for a, w in zip(addresses, wide.widths) if w
            ):
                wide = None
        layout = (ndim, positions, narrow, wide)

        def build():
            return device.emit_elements(
                self.function(), count, ndim, positions, narrow, wide
            )

        entry = gpu_entries.element_name(self.name, ndim, positions, narrow, wide)
        handle = self.handle(ctx, layout, entry, build)
        each = wide.each if wide else 1
        ints = [sizes[0] // each, *sizes[1:]]
        for row in strides:
            ints += (row[0] * each, *row[1:]) if row else (0,) * ndim
        if ndim == 1:
            ints.append(total)
        shape = (*grid_for(ctx, max(total > 0, total // each)), 0)
        return launch.LaunchPlan(ctx, self, handle, count, shape, ints, total // each)

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
        from rushlight.codegen.schedule import gpu_entries

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
        each = min(gpu_entries.MOST_EACH, gpu_entries.LOAD // max(widths))
        if each < 2 or (len(sizes) > 1 and sizes[0] % each):
            return None
        for row, width in zip(strides, widths):
            if width and any(step % (each * width) for step in row[1:]):
                return None
        return gpu_entries.Wide(each, self.outputs, tuple(widths))

    def run_lists(self, ctx, operands, lists, counts, numbers, fault=0):
        """Runs an elementwise kernel over lists of tensors in this thread's queue.

        Args:
            device: where.
            operands: for each operand a list's number and the bytes from one element to
                the next, or None for a number.
            lists: addresses of as many tensors each.
            counts: how many elements the tensors have.
            numbers: 16 bytes for each operand that is a number.
            fault: where the kernel notes what it refuses; the device's place by default.
        """
        from rushlight.codegen.emit import device
        from rushlight.codegen.schedule import gpu_entries

        wide = None
        if sum(counts) >= WIDE_FROM:
            rows = tuple(None if item is None else item[1:] for item in operands)
            wide = self.wide((sum(counts),), rows)
            read = {item[0] for item in operands if item and item[1]}
            if any(a % gpu_entries.LOAD for row in read for a in lists[row]):
                wide = None

        def build():
            return device.emit_lists(self.function(), operands, wide)

        handle = ctx.handles.get((self, (operands, wide)))
        if handle is None:
            entry = gpu_entries.list_name(self.name, operands, wide)
            handle = self.handle(ctx, (operands, wide), entry, build)
        most = gpu_entries.most_tensors(len(lists))
        chosen = [n for n, count in enumerate(counts) if count]
        for begin in range(0, len(chosen), most):
            part = chosen[begin : begin + most]
            table = array("q", bytes(8 * gpu_entries.ROOM))
            pieces = 0
            for place, n in enumerate(part):
                table[place] = pieces
                pieces += -(-counts[n] // gpu_entries.PIECE)
            for row, words in enumerate((counts, *lists), 1):
                at = row * most
                table[at : at + len(part)] = array("q", [words[n] for n in part])
            ctx.enter()
            limit = ctx.properties.multi_processor_count * WAVES
            stream = contexts.current_stream(ctx)
            code = launch.launch_lists(
                *(handle, stream.handle, min(pieces, limit), THREADS),
                *(table.tobytes(), numbers, len(part), pieces),
                fault or ctx.fault_address(),
            )
            count_launch()
            self.launched(ctx, code)

    def run_spans(self, ctx, addresses, ints, total, chunk=1):
        """Runs a kernel over its parallel axis in this thread's queue.

        Args:
            device: where.
            addresses: the data pointers; 0 where there is none.
            ints: sizes, strides and parameters, as the kernel lays them out.
            total: the length of the axis.
            chunk: how much of it a thread takes at a time.
        """
        count = len(addresses)
        narrow = max(total, *ints, 0) < NARROW_INDEX and min(ints, default=0) >= 0

        def make():
            from rushlight.codegen.emit import device
            from rushlight.codegen.schedule import gpu_entries

            entry = gpu_entries.span_name(self.name, narrow)
            build = lambda: device.emit(self.function(), narrow)  # noqa: E731
            handle = self.handle(ctx, ("spans", narrow), entry, build)
            shape = (*grid_for(ctx, -(-total // chunk)), 0)
            return launch.LaunchPlan(
                ctx, self, handle, count, shape, ints, total, chunk
            )

        # what kernels are given by number, such as a place in a random stream, changes
        # from call to call, and the plan does not
        key = ctx.serial, "spans", narrow, total, chunk
        if not self.plan(key, make).run_with(addresses, ints):
            self.plan((*key, ints), make).run(addresses)

    def run_rows(self, ctx, addresses, ints, rows, length, strided=False, held=()):
        """Runs a kernel over rows in this thread's queue.

        A row is a block's, or a thread's where rows are short, or where many lie side by
        side, or many blocks' where it is long and becomes one state: that depends on sizes
        alone, and so do the bits of its sums.

        Args:
            device: where.
            addresses: the data pointers, outputs first.
            ints: as the kernel lays them out.
            rows: how many there are.
            length: how many values each has.
            strided: whether the elements of neighbouring rows are neighbours.
            held: pairs of positions; see `gpu_entries.grid_entry`.
        """
        held, count = tuple(held), len(addresses)
        given = ctx, addresses, ints, rows, length, held
        if strided and self.run_parts(*given, strided=True):
            return
        if length >= LONG and self.run_parts(*given):
            return
        aligned = not any(address % ALIGNED for address in addresses)
        given = ints, rows, length, strided, held, aligned
        plan = self.plan(
            (ctx.serial, "rows", *given), lambda: self.plan_rows(ctx, count, *given)
        )
        plan.run(addresses)

    def plan_rows(self, ctx, count, ints, rows, length, strided, held, aligned):
        """The plan of a launch over rows, each of them a block's or a thread's."""
        from rushlight.codegen.emit import device
        from rushlight.codegen.lower import lower
        from rushlight.codegen.schedule import gpu_entries, gpu_lowering
        from rushlight.codegen.target import NVIDIA, using

        together = length >= WARP and not (strided and rows >= MANY)
        each = threads = 0
        if together and rows and aligned:
            each, threads = self.keep_row(ints, rows, length) or (0, 0)
        long = length >= LONG_RUN and self.is_one_run(ints, length)
        mark = each or ("_long" if long else "")
        name = f"{self.name}_{'blocks' if together else 'threads'}{mark}"

        def build():
            with using(NVIDIA):
                made = self.grid(together=together, each=each, long=long)
                made = lower(dataclasses.replace(made, name=name))
            most = gpu_lowering.most_threads(made) if together else THREADS
            return device.emit_grid(made, held, most)

        entry = gpu_entries.entry_name(name)
        handle = self.handle(ctx, (together, mark, held), entry, build)
        grid, usual = grid_for(ctx, rows)
        if together and rows:
            usual = threads_for(length, ctx.block_limits[handle], rows)
            grid = min(rows, MOST_BLOCKS)
        shape = grid, threads or usual, 0
        return launch.LaunchPlan(ctx, self, handle, count, shape, ints, rows, 1)

    def is_one_run(self, ints, length):
        """Whether one loop goes along a whole row."""
        from rushlight.codegen.target import NVIDIA, using

        with using(NVIDIA):
            _, loops = self.registers()
        return ints[loops[-1]] == length

    def keep_row(self, ints, rows, length):
        """How many values of a row each of how many threads keeps; None if they do not."""
        from rushlight.codegen.schedule import gpu_lowering, gpu_passes
        from rushlight.codegen.target import NVIDIA, using

        with using(NVIDIA):
            needed, loops = self.registers()
        if not needed or ints[loops[-1]] != length:
            return None
        most = gpu_lowering.MOST_THREADS_OF_DOUBLES
        return keep_row(length, most, rows, gpu_passes.REGISTERS // needed)

    def run_parts(self, ctx, addresses, ints, rows, length, held, strided=False):
        """Runs a kernel whose rows are many blocks': one launch finds the states of parts,
        another joins those; False where rows are no such.

        Where rows lie ``strided`` each other a part is a thread's, else a block's.
        """
        from rushlight.core.factories import empty
        from rushlight.core.window import address_of

        key = ctx.serial, "parts", ints, rows, length, held, strided
        found = self.plan(
            key, lambda: self.plan_parted(ctx, ints, rows, length, held, strided)
        )
        if not found:
            return False
        (operands, leaves, count, where), plans = found
        # kept until both are launched: eight bytes for each leaf of a state
        room = empty((leaves, count), dtype=by_code(WORD), device=where)
        start = address_of(room)
        states = [start + 8 * leaf * count for leaf in range(leaves)]
        for plan in plans:
            plan.run((*addresses[:operands], *states))
        return True

    def plan_parted(self, ctx, ints, rows, length, held, strided):
        """The plans of both launches of `run_parts`, and what memory they share."""
        from rushlight.codegen.schedule import gpu_lowering
        from rushlight.codegen.target import NVIDIA, using

        if not strided and rows > MOST_PARTS // 2 or len(ints) > gpu_lowering.PARTS:
            return ()
        if strided and (rows < LEAST_STRIDED or length < 2 * LEAST_PART):
            return ()
        with using(NVIDIA):
            parted = self.parted()
        if parted is None or parted.operands + parted.leaves > gpu_lowering.MOST_DATA:
            return ()
        sizes = [ints[at] for at in parted.loops]
        divide = plan_threads if strided else plan_parts
        wanted, _ = divide(rows, length, length)
        cut = sizes.index(max(sizes))
        if not strided:  # an outer loop: threads take what is next to each other
            cut = next((n for n, size in enumerate(sizes) if size >= wanted), cut)
        parts, span = divide(rows, length, sizes[cut])
        if parts < 2:
            return ()
        held = tuple(pair for pair in held if pair[0] < parted.operands)
        ints = (*ints, *[0] * (gpu_lowering.PARTS - len(ints)), parts, span)
        inner = length // sizes[cut] * span
        finds = gpu_lowering.FINDS_STRIDED if strided else gpu_lowering.FINDS
        given = ctx, parted.operands + parted.leaves, ints, cut, held
        plans = (
            self.plan_part(*given, finds, rows * parts, inner),
            self.plan_part(*given, gpu_lowering.JOINS, rows, parts),
        )
        where = Device("cuda", ctx.index)
        return (parted.operands, parted.leaves, rows * parts, where), plans

    def plan_part(self, ctx, n_data, ints, cut, held, way, total, values):
        """The plan of the launch that finds states of parts, or of that which joins them."""
        from rushlight.codegen.emit import device
        from rushlight.codegen.lower import lower
        from rushlight.codegen.schedule import gpu_entries, gpu_lowering
        from rushlight.codegen.target import NVIDIA, using

        alone, loops = way == gpu_lowering.FINDS_STRIDED, self.parted().loops
        long = way == gpu_lowering.FINDS and values >= LONG_RUN // 2
        long = (
            long and cut == len(loops) - 1 and all(ints[at] == 1 for at in loops[:-1])
        )
        name = f"{self.name}_{way}_{cut}{'_long' if long else ''}"
        how = {"way": way, "cut": cut, "long": long}

        def build():
            with using(NVIDIA):
                made = lower(dataclasses.replace(self.parts(**how), name=name))
            most = THREADS if alone else gpu_lowering.most_threads(made)
            return device.emit_grid(made, held, most)

        handle = self.handle(
            ctx, (way, cut, long, held), gpu_entries.entry_name(name), build
        )
        threads = threads_for(values, ctx.block_limits[handle], total)
        shape = min(total, MOST_BLOCKS), threads
        shape = (*(grid_for(ctx, total) if alone else shape), 0)
        return launch.LaunchPlan(ctx, self, handle, n_data, shape, ints, total, 1)

    def parted(self):
        """How rows become parts, found once; None where they do not."""
        if self.parted_found is NOT_YET:
            self.parted_found = self.find_parted()
        return self.parted_found

    def run_blocks(self, ctx, addresses, ints, blocks, threads, held=(), shared=0):
        """Runs a function of a grid whose axis is divided among blocks.

        Args:
            device: where.
            addresses: the data pointers.
            ints: as the kernel lays them out.
            blocks: the length of the axis.
            threads: of each block.
            held: pairs of positions; see `gpu_entries.grid_entry`.
            shared: bytes of shared memory of a block, where they are a launch's.
        """
        held, ints = tuple(held), tuple(ints)

        def make():
            from rushlight.codegen.emit import device
            from rushlight.codegen.schedule import gpu_entries

            def build():
                return device.emit_grid(self.function(), held, threads)

            entry = gpu_entries.entry_name(self.name)
            handle = self.handle(ctx, (held, threads), entry, build, shared)
            shape = min(blocks, MOST_BLOCKS), threads, shared
            given = ctx, self, handle, len(addresses), shape, ints, blocks, 1
            return launch.LaunchPlan(*given)

        key = ctx.serial, "blocks", ints, blocks, threads, held, shared
        self.plan(key, make).run(tuple(addresses))

    def launched(self, ctx, code):
        """Looks at the driver's answer to a launch."""
        if code:
            ctx.driver.refuse(code, f"cuLaunchKernel({self.name})")
        if BLOCKING:
            contexts.current_stream(ctx).synchronize()


INDEX = 8  # the bit of `expr.FAULTS` for an index that lies outside


def run_program(kernels, device, addresses, ints, may_refuse):
    """Runs kernels over the same arrays, one after the other, in this thread's queue.

    Args:
        kernels: for each the kernel, the length of its axis, the threads of the blocks
            that divide that, or None, and the bytes of shared memory that those ask for.
        device: where.
        addresses, ints: the data pointers and integers of all of them.
        may_refuse: whether the kernels look at indices: one that lies outside is an
            IndexError when the device is waited for.
    """
    batched_launch.flush()
    ctx = contexts.ctx(device.index)
    for kernel, trip_counts, threads, shared in kernels:
        if threads is None:
            kernel.run_spans(ctx, addresses, ints, trip_counts)
        else:
            kernel.run_blocks(ctx, addresses, ints, trip_counts, threads, shared=shared)
    if may_refuse:
        count_launch()  # who writes launches down cannot leave this out
        faults = ProgramFaults(ctx, tuple(kernel.name for kernel, *_ in kernels))
        queue = contexts.current_stream(ctx)
        graph = graphs.recorder(queue)
        if graph is not None:
            graph.faults.programs[faults] = None
            return
        ctx.look_later(faults, queue)
        if ctx.blocking:
            ctx.wait(queue)


@dataclasses.dataclass(frozen=True)
class ProgramFaults:
    """What the kernels of a program note in the word of their device.

    Args:
        device: where they ran.
        names: of the kernels.
    """

    ctx: object
    names: tuple

    def look(self):
        """Raises what was noted.

        Raises:
            IndexError: an index lay outside.
        """
        if self.ctx.take_faults() & INDEX:
            raise IndexError(
                "index out of range: a kernel was given an index that is outside of the "
                f"tensor it leads into\n  kernels: {', '.join(self.names)}, found when "
                f"cuda:{self.ctx.index} was waited for"
            )


BLOCKING = os.environ.get("CUDA_LAUNCH_BLOCKING") == "1"
