"""Programs as they run: a list of steps, and the compiled routine that takes them.

A step asks for memory, launches a kernel or runs an operator, and lets go of memory that
no later step reads. Results that nobody wants never have memory.
"""

from __future__ import annotations

import cython
from cython.cimports.libc.stdint import int64_t
from cython.cimports.rushlight.backends.cpu.launch import parallel_for, run_here
from cython.cimports.rushlight.core.storage import Storage, take_block
from cython.cimports.rushlight.core.tensor import Tensor
from cython.cimports.rushlight.programs.tape import Tape

GRAIN = cython.declare(int64_t, 32768)  # elements that one thread takes at least
CHUNK = cython.declare(int64_t, 8192)  # elements of one row of a flat loop


@cython.final
@cython.cclass
class Step:
    """A kernel to launch or an operator to run, and the memory around it.

    Args:
        call: the operator's call; None for kernels.
        told: what the step does, for those who read programs.
    """

    def __init__(self, call=None, told=None):
        self.kind = RUN
        self.call = call
        self.told = told
        self.asked = []
        self.taken = []
        self.freed = []

    def set_kernel(self, kernel, operands, itemsizes):
        """Makes the step a launch.

        Args:
            kernel: the native kernel.
            operands: for each of its pointers, a slot and a shift in bytes, a tensor, or
                ``("number", index, code)`` for a parameter passed as that dtype.
            itemsizes: bytes of an element of each.
        """
        i: cython.int
        self.kind = LAUNCH
        self.kernel = kernel
        self.n = len(operands)
        self.constants = []
        if self.n > OPERANDS:
            raise ValueError(f"a kernel takes {OPERANDS} operands, not {self.n}")
        for i in range(self.n):
            operand = operands[i]
            self.constants.append(None)
            self.shifts[i] = 0
            if isinstance(operand, Tensor):
                self.bases[i] = -1
                self.constants[i] = operand
            elif operand[0] == "number":
                self.bases[i] = -2 - cython.cast(cython.int, operand[1])
                self.codes[i] = operand[2]
            else:
                self.bases[i] = operand[0]
                self.shifts[i] = operand[1]

    def redirect(self, source, target):
        """Reads from another storage what the kernel reads from one."""
        i: cython.int
        for i in range(self.n):
            if self.bases[i] == source:
                self.bases[i] = target

    def set_loops(self, sizes, strides, itemsizes):
        """The loops of an elementwise kernel: sizes, and byte strides of each operand.

        Args:
            sizes: of the dimensions, the innermost first; merged where possible.
            strides: for each operand, its byte strides in that order.
            itemsizes: bytes of an element of each operand.
        """
        i: cython.int
        d: cython.int
        count: cython.int = self.n
        flat: cython.bint = len(sizes) <= 1
        self.mode = STRIDED
        self.total = sizes[1] if len(sizes) > 1 else 1
        self.ints[0] = sizes[0] if len(sizes) else 1
        self.outer = max(len(sizes) - 2, 0)
        for d in range(self.outer):
            self.sizes[d] = sizes[2 + d]
        for i in range(count):
            self.ints[1 + i] = strides[i][0] if len(sizes) else 0
            self.ints[1 + count + i] = strides[i][1] if len(sizes) > 1 else 0
            flat = flat and self.ints[1 + i] in (0, itemsizes[i])
            for d in range(self.outer):
                self.strides[i][d] = strides[i][2 + d]
        self.grain = GRAIN // max(self.ints[0], 1) + 1
        if flat:
            self.mode = FLAT
            self.total = self.ints[0]

    def set_raw(self, ints, total, grain):
        """The integers of a kernel with loops of its own."""
        i: cython.int
        self.mode = RAW
        self.n_ints = len(ints)
        if self.n_ints > 96:
            raise ValueError(f"a kernel takes 96 integers, not {self.n_ints}")
        for i in range(self.n_ints):
            self.ints[i] = ints[i]
        self.total = total
        self.grain = grain

    @property
    def is_flat(self):
        """Whether the kernel goes over one run of elements."""
        return self.mode == FLAT

    @property
    def places(self):
        """The storages of the kernel's operands; None for numbers."""
        return [
            self.bases[i] if self.bases[i] >= 0 else None
            for i in range(self.n if self.kind == LAUNCH else 0)
        ]

    @cython.cfunc
    def launch(self, tape: Tape) -> object:
        """Runs the kernel over the memory of its slots."""
        data: cython.p_char[24]
        part: cython.p_char[24]
        ints: int64_t[64]
        index: int64_t[8]
        i: cython.int
        d: cython.int
        base: cython.int
        rows: int64_t
        storage: Storage
        constant: Tensor
        count: cython.int = self.n
        for i in range(count):
            base = self.bases[i]
            if base >= 0:
                storage = cython.cast(Storage, tape.slots[base])
                data[i] = storage.data + self.shifts[i]
            elif base == -1:
                constant = self.constants[i]
                data[i] = constant.pointer()
            else:
                number: cython.double = tape.params[-2 - base]
                data[i] = cython.cast(
                    cython.p_char, cython.address(self.numbers[2 * i])
                )
                if self.codes[i] == 6:
                    cython.cast(cython.p_float, data[i])[0] = cython.cast(
                        cython.float, number
                    )
                else:
                    self.numbers[2 * i] = number
        if self.mode == RAW:
            if self.total <= self.grain:
                run_here(self.kernel.fn, data, self.ints, self.total)
            else:
                with cython.nogil:
                    parallel_for(
                        self.kernel.fn, data, self.ints, self.total, self.grain
                    )
            return None
        if self.mode == FLAT:
            if self.total <= GRAIN:
                run_here(self.kernel.fn, data, self.ints, 1)
                return None
            for i in range(count + 1):
                ints[i] = self.ints[i]
            rows = self.total // CHUNK
            ints[0] = CHUNK
            for i in range(count):
                ints[1 + count + i] = ints[1 + i] * CHUNK
            with cython.nogil:
                parallel_for(self.kernel.fn, data, ints, rows, GRAIN // CHUNK)
                if rows * CHUNK < self.total:
                    ints[0] = self.total - rows * CHUNK
                    for i in range(count):
                        data[i] += rows * ints[1 + count + i]
                    run_here(self.kernel.fn, data, ints, 1)
            return None
        for d in range(self.outer):
            index[d] = 0
        with cython.nogil:
            while True:
                for i in range(count):
                    part[i] = data[i]
                parallel_for(self.kernel.fn, part, self.ints, self.total, self.grain)
                d = 0
                while d < self.outer:
                    index[d] += 1
                    for i in range(count):
                        data[i] += self.strides[i][d]
                    if index[d] < self.sizes[d]:
                        break
                    for i in range(count):
                        data[i] -= self.strides[i][d] * self.sizes[d]
                    index[d] = 0
                    d += 1
                if d >= self.outer:
                    break
        return None


@cython.cfunc
@cython.exceptval(-1, check=False)
def ask(storage: Storage) -> cython.int:
    """Gives a storage that waits its memory."""
    if storage.data == cython.NULL and storage.n_bytes:
        storage.data = take_block(storage.n_bytes, cython.address(storage.capacity))
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def take(target: Storage, source: Storage) -> cython.int:
    """Hands memory on from a storage that nobody reads any more."""
    if (
        source.capacity == 0
        or source.owner is not None
        or source.lent
        or source.n_bytes != target.n_bytes
        or target.data != cython.NULL
    ):
        return ask(target)
    target.data = source.data
    target.capacity = source.capacity
    source.data = cython.NULL
    source.capacity = 0
    source.n_bytes = 0
    return 0


@cython.final
@cython.cclass
class Program:
    """The steps for a path, with what is wanted of it.

    Args:
        steps: a list of `Step`.
        graph: what they were made from (`rushlight.programs.steps.Graph`).
    """

    steps = cython.declare(list, visibility="readonly")
    graph = cython.declare(object, visibility="readonly")

    def __init__(self, steps, graph=None):
        self.steps = steps
        self.graph = graph

    @property
    def code(self):
        """The program as text: a function for each kernel, then the steps in order."""
        from rushlight.programs.reading import code_of

        return code_of(self)

    def __call__(self, tape: Tape):
        step: Step
        i: cython.int
        pair: tuple
        for i in range(len(self.steps)):
            step = cython.cast(Step, self.steps[i])
            if step.kind == RUN:
                tape.execute(step.call)
            else:
                for pair in step.taken:
                    # both were numbered by this path: memory moves with the number
                    take(
                        cython.cast(Storage, tape.slots[pair[0]]),
                        cython.cast(Storage, tape.slots[pair[1]]),
                    )
                for slot in step.asked:
                    ask(cython.cast(Storage, tape.slots[slot]))
                step.launch(tape)
            for slot in step.freed:
                tape.slots[slot] = None
