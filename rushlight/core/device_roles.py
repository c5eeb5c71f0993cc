"""What a kind of device does, by role: memory, streams, launches, libraries, graphs.

A `Backend` has an object of each role. These are the ones of a device that does nothing:
what they are asked for is refused in the backend's name, or there is none of it. A backend
replaces the roles that its devices fill.
"""

import contextlib


class Role:
    """A part of a backend, whose devices are called ``name``."""

    def __init__(self, name):
        self.name = name

    def refuse(self, what, device):
        """Raises what tells that the backend does not do something."""
        raise NotImplementedError(f"the backend '{self.name}' does not {what}")


class Memory(Role):
    """Blocks of memory, bytes that move, host memory that a device may read."""

    def allocate(self, n_bytes, device):
        """The address of a new block, or 0; never asked for nothing."""
        self.refuse("allocate memory", device)

    def free(self, address, n_bytes, device):
        """Takes a block back."""

    def copy_bytes(self, target, to, source, of, n_bytes, non_blocking=False):
        """Copies bytes from an address on the device ``of`` to one on ``to``.

        One of them may be the host; ``non_blocking`` says that it may return before.
        """
        self.refuse("copy", to if of.on_host else of)

    def empty_cache(self):
        """Gives memory that is kept for later back to the device."""

    def pin(self, n_bytes):
        """Host memory that a device may read while the host goes on: its address."""
        self.refuse("pin memory", self.name)

    def is_pinned(self, address):
        """Whether such memory lies at an address of the host's."""
        return False

    def unpin(self, address, n_bytes):
        """Takes such memory back."""


class Streams(Role):
    """Queues of work and marks in them."""

    def stream(self, device, priority=0):
        """A new queue of work, with ``query``, ``synchronize``, ``wait_event``."""
        self.refuse("make a stream", device)

    def current_stream(self, device):
        """The queue that this thread's work on a device goes to."""
        self.refuse("say its stream", device)

    def set_stream(self, stream):
        """Has this thread's work go to another queue."""
        self.refuse("choose a stream", self.name)

    def event(self, device, timing=False):
        """A new mark in a queue: ``record``, ``query``, ``synchronize``, ``elapsed_time``."""
        self.refuse("make an event", device)

    def synchronize(self, device):
        """Waits until all that was asked of a device is done."""

    def order(self, device, handle):
        """Has another library's queue, by its handle, wait for the current one's work."""


class Launch(Role):
    """Generated kernels: their code, and how they run.

    Arguments of several methods:
        kernel: what `specialize` gave.
        addresses: of the operands, results first; none (0, or None) for what has no memory.
        sizes, strides: of the loops, innermost first, and each operand's byte steps.
        numbers: 16 bytes for each operand that is a number.
        ints: sizes, strides and parameters, as the kernel lays them out.
    """

    def compiles(self):
        """Whether generated kernels run on its devices."""
        return False

    def specialize(self, source, *args, **choices):
        """A kernel's code for its devices; what `specialize` of the source takes."""
        self.refuse("compile kernels", self.name)

    def run_elements(self, kernel, device, addresses, sizes, strides, numbers, total):
        """Runs an elementwise kernel over ``total`` elements."""
        self.refuse("run kernels", self.name)

    def run_lists(self, kernel, device, operands, lists, counts, numbers, fault=0):
        """Runs an elementwise kernel over lists of tensors, at once.

        Args:
            operands: for each, results first, a list's number and the bytes from one
                element to the next (0: one element for each tensor); None for a number.
            fault: where faults are noted, if not in the backend's place.
        """
        self.refuse("run kernels", self.name)

    def faults(self, device):
        """Who lends words for bad indices and looks at them later, as `FaultBoard` does."""
        return None

    def together(self):
        """A block whose elementwise launches may be put together, in their order."""
        return contextlib.nullcontext()

    def run_spans(self, kernel, device, addresses, ints, total, whole=False):
        """Runs a kernel over its axis of ``total`` items; ``whole`` if they depend on others."""
        self.refuse("run kernels", self.name)

    def run_rows(self, kernel, device, addresses, ints, rows, length, strided, held=()):
        """Runs a kernel over rows.

        Args:
            rows, length: how many there are, and how many values each has.
            strided: whether the elements of neighbouring rows are neighbours.
            held: pairs of the position of a pointer, and of the integer that it is to.
        """
        self.refuse("run kernels", self.name)


class HostLaunch(Launch):
    """The host's kernels are called where they are made: they are compiled."""

    def compiles(self):
        return True


class Libraries(Role):
    """What a device computes without kernels generated for the operator."""

    def run_scan(self, source, kinds, operands, outer, size, inner):
        """Scans rows by a layout of its own; whether there is one for these sizes.

        Args:
            source: the reduction whose states are wanted after each element.
            kinds: dtypes of the input, of results, and of what is computed.
        """
        return False

    def run_selection(self, way, operands, extents, rank, descending, skip):
        """Selects from rows by a layout of its own; whether there is one for these sizes.

        Args:
            way: which elements; see `rushlight.kernels.select.device_select`.
            operands: the values, their places, and the rows, all of them dense.
            extents: how many rows there are, their size, and the parts of each.
            rank: of the last element wanted; ``skip``: whether the middle skips NaN.
        """
        return False

    def run_blocks(self, make, kinds, operands, ints, blocks, threads):
        """Runs a function of a grid.

        Args:
            make: writes it, from a name and ``kinds``; see `rushlight.kernels`.
            operands: what it reads and writes, all of it dense; ``ints`` its integers.
            blocks: what there is to divide among blocks of so many ``threads``.
        """
        self.refuse("run functions of a grid", self.name)

    def has_separate_sums(self):
        """Whether `run_product` takes results of another dtype than their sums."""
        return False

    def run_product(
        self, device, element, compute, sizes, operands, scales, batch, result=None,
        activation=None,
    ):  # fmt: skip
        """Multiplies matrices: ``out = alpha left right + beta added``; whether that was done.

        Args:
            element, compute, result: the dtypes' names of factors, of sums, of the result.
            sizes: rows, columns and depth, of ``batch`` products.
            operands: out, left, right and added (or None): address, then steps in
                elements from row to row, from column to column, and in the batch.
            scales: alpha and beta.
            activation: ``relu`` or ``gelu`` (by tanh), to be applied to the result.

        Raises:
            NotImplementedError: nothing multiplies such values.
        """
        self.refuse("multiply matrices", device)

    def run_scaled_product(
        self, device, elements, result, sizes, operands, scales, fast
    ):
        """Multiplies matrices of eight-bit floats that have scales; whether it did.

        Args:
            elements: the names of the dtypes of the left and right operand.
            result: that of the result, and of the vector or None.
            operands: out, left and right as `run_product` has them; then the address of a
                vector that is added to every row, or None.
            scales: of both factors the address of float32, and whether there is one for
                each row, or column; then what an eight-bit result is multiplied by, or None.
        """
        return False

    def attends(self, device, dtype, depth, width, masked, dropout=False):
        """Whether `run_attention` takes queries of ``depth`` and values of ``width`` elements."""
        return False

    def run_attention(
        self, results, operands, log_mass, is_causal, scale, dropout=None
    ):
        """Attention of four-dimensional tensors that `attends` speaks of.

        Args:
            operands: queries, keys, values (rows of whole 16 bytes), and the mask or None.
            dropout: the chance of a weight to be left out, and seed and offset of the
                stream, or two integers in the device's memory; or None.
        """
        self.refuse("attend", results.device)

    def run_attention_gradients(
        self, results, grad, out, operands, log_mass, is_causal, scale, dropout=None
    ):
        """Gradients of `run_attention`; whether there are kernels for them.

        Args:
            results: where those of queries, keys and values are written, or None.
            grad, out: that of what attention gave, and that; both laid out in runs.
        """
        return False

    def convolves(self, dtype):
        """Whether a library of the device's takes convolutions of a dtype at present."""
        return False

    def run_convolution(
        self, kind, result, first, second, vector, last, stride, padding, dilation
    ):
        """Has that library convolve; whether it did.

        Args:
            kind: ``forward``, or whose gradient is wanted: ``input`` or ``weight``.
            first: the input, or the gradient of the output where that of an input is wanted.
            second: the weight, or the gradient of the output where that of one is wanted.
            last: whether channels are the last in the memory of all of them.
        """
        return False


class Graphs(Role):
    """Work that is recorded, and launched as a whole."""

    def graph(self, device):
        """A new record of work that is launched as a whole; None where there are none.

        It has ``write(function)``, whose work is written down and not done, ``launch()``,
        ``enter(addresses)``, to be called before its memory is touched again, ``reset()``.
        """
        return None

    def recorder(self, device):
        """Who keeps the places of random numbers in work that is written down.

        ``place(source, steps, make)``: where the stream is when that is done, and what
        ``make`` made of seed and place. None where work is done at once.
        """
        return None

    def is_writing(self, device):
        """Whether a device's work is being written down."""
        return False
