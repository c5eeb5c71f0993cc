"""Devices: where bytes live, as a type and an index."""

from __future__ import annotations

import contextlib
import functools
import importlib
import threading

import cython
from cython.cimports.libc.stdint import uintptr_t
from cython.cimports.libc.stdlib import free, malloc
from cython.cimports.libc.string import memcpy
from cython.cimports.rushlight.core.state import ThreadState, state

from rushlight.core import naming

_NAMES = (
    *("cpu", "cuda", "ipu", "xpu", "mkldnn", "opengl", "opencl", "ideep", "hip", "ve"),
    *("fpga", "maia", "xla", "lazy", "vulkan", "mps", "meta", "hpu", "mtia"),
    "privateuseone",
)
_OWN = {
    "cpu": KIND_CPU,
    "cuda": KIND_CUDA,
    "meta": KIND_META,
    "privateuseone": KIND_PRIVATEUSE1,
}
# Types that PyTorch parses and no backend serves have a number of their own behind these.
_KINDS = cython.declare(
    dict, {name: _OWN.get(name, N_KINDS + place) for place, name in enumerate(_NAMES)}
)
_BACKEND_NAME = cython.declare(list, ["privateuseone"])


@cython.cclass
class Device:
    """A place for tensors, such as ``cpu``, ``meta`` or ``cuda:0``.

    Raises:
        RuntimeError: the string names no known device type.

    >>> Device("cuda", 1)
    device(type='cuda', index=1)
    """

    def __init__(self, device=None, index=None, type=None):
        device = (type or "cpu") if device is None else device
        if isinstance(device, Device):
            source: Device = device
            self.type = source.type
            self.kind = source.kind
            self.index = source.index
            self.on_host, self.has_memory = source.on_host, source.has_memory
            return
        if isinstance(device, int) and not isinstance(device, bool):
            if device < 0:
                raise RuntimeError(f"Device index must not be negative, got {device}")
            driver = importlib.import_module(_LATE[KIND_CUDA] + ".driver")
            if not driver.present():
                raise RuntimeError(
                    "Cannot access accelerator device when none is available.\n"
                    f"  device {device} was asked for\n"
                    "  remedy: device='cpu', or a name such as 'cuda:0'"
                )
            device, index = "cuda", device
        if not isinstance(device, str):
            raise TypeError(
                "device(): argument 'device' must be str, int or "
                f"{naming.package}.device, "
                f"not {device.__class__.__name__}"
            )
        self._parse(device, index)

    def _parse(self, text, index):
        if not text:
            raise RuntimeError("Device string must not be empty")
        name, colon, number = text.partition(":")
        if colon:
            if index is not None:
                raise RuntimeError(
                    "type (string) must not include an index because index was passed "
                    f"explicitly: {text}"
                )
            if not number.isdigit() or (len(number) > 1 and number[0] == "0"):
                raise RuntimeError(f"Invalid device string: '{text}'")
            index = int(number)
        if name not in _KINDS:
            raise RuntimeError(
                f"Expected one of {', '.join(_KINDS)} device type at start of device "
                f"string: {text}"
            )
        if index is not None and index < 0:
            raise RuntimeError(
                f"Device index must be non-negative, got {index} for device '{name}'"
            )
        self.kind = _KINDS[name]
        self.type = _BACKEND_NAME[0] if self.kind == KIND_PRIVATEUSE1 else name
        self.index = index
        self.on_host = self.kind == KIND_CPU
        self.has_memory = self.kind != KIND_META

    def __repr__(self):
        if self.index is None:
            return f"device(type='{self.type}')"
        return f"device(type='{self.type}', index={self.index})"

    def __str__(self):
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other):
        if not isinstance(other, Device):
            return NotImplemented
        d: Device = other
        return self.kind == d.kind and self.index == d.index

    def __hash__(self):
        return hash((self.kind, self.index))

    def __reduce__(self):
        return (Device, (self.type, self.index))

    def __enter__(self):
        """Factories of this thread put their tensors here until the block ends."""
        _THREADS.left.append(switch_default(self))
        return self

    def __exit__(self, *raised):
        switch_default(_THREADS.left.pop())

    def __call__(self, function):
        """``function`` with this device as the default while it runs."""

        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            with self:
                return function(*args, **kwargs)

        return wrapped


@cython.cclass
class Backend:
    """What serves all devices of one kind: memory, bytes that move, streams.

    Subclasses say what theirs can do; what they leave out is refused. Addresses are
    numbers of the device's own: nobody but the backend looks at what is there.

    Args:
        name: what the devices are called, such as ``"cuda"``.
    """

    def __init__(self, name):
        self.name = name

    def roles(self):
        """Its modules by role, where it has some; see `core.roles`."""
        return None

    # -- memory ------------------------------------------------------------------

    def place(self, device):
        """The very device that is meant by one without a number."""
        return device

    def allocate(self, n_bytes, device):
        """The address of a new block; never asked for nothing.

        Raises:
            RuntimeError: the backend has no memory of its own.
        """
        self.refuse("allocate memory", device)

    def free(self, address, n_bytes, device):
        """Takes a block back."""

    def copy_bytes(self, target, to, source, of, n_bytes, non_blocking=False):
        """Copies bytes from or to one of its devices; the other end may be the host.

        Args:
            target: an address on the device ``to``.
            source: an address on the device ``of``.
            n_bytes: how many.
            non_blocking: whether it may return before they are there.
        """
        self.refuse("copy", to if of.on_host else of)

    def empty_cache(self):
        """Gives memory that is kept for later back to the device."""

    # -- order -------------------------------------------------------------------

    def device_count(self):
        """How many devices there are."""
        return 0

    def current_device(self):
        """The index of the device that is meant where none is named."""
        return 0

    def set_device(self, index):
        """Names the device that is meant where none is named, in this thread."""
        self.refuse("choose a device", self.name)

    def synchronize(self, device):
        """Waits until all that was asked of a device is done."""

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

    # -- the rest ----------------------------------------------------------------

    def recorder(self, device):
        """Who keeps the places of random numbers in work that is being written down.

        Its ``place(source, steps, make)`` gives the place, counted from where the stream
        is when the work is done, and what ``make`` made: that is called with the seed and
        the place each time before. None where work is done at once.
        """
        return None

    def generator(self, device):
        """The generator that a device's random numbers come from."""
        self.refuse("draw random numbers", device)

    def processors(self, device):
        """How many processors a device has, and how many threads each of them runs."""
        self.refuse("count its processors", device)

    def pin(self, n_bytes):
        """Host memory that a device may read while the host goes on: its address."""
        self.refuse("pin memory", self.name)

    def is_pinned(self, address):
        """Whether such memory lies at an address of the host's."""
        return False

    def unpin(self, address, n_bytes):
        """Takes such memory back."""

    def compiles(self):
        """Whether generated kernels run on its devices."""
        return False

    def specialize(self, source, *args, **choices):
        """A kernel's code for its devices; what `specialize` of the source takes."""
        self.refuse("compile kernels", self.name)

    def run_elements(self, kernel, device, addresses, sizes, strides, numbers, total):
        """Runs an elementwise kernel.

        Args:
            kernel: what `specialize` gave.
            addresses: of the operands, results first; None for a number.
            sizes: of the loops, innermost first.
            strides: for each operand its byte steps along them; None for a number.
            numbers: 16 bytes for each operand that is a number.
            total: how many elements.
        """
        self.refuse("run kernels", self.name)

    def run_lists(self, kernel, device, operands, lists, counts, numbers, fault=0):
        """Runs an elementwise kernel over lists of tensors, at once.

        Args:
            kernel: what `specialize` gave.
            operands: for each, results first, a list's number and the bytes from one
                element to the next (0: one element for each tensor); None for a number.
            lists: the addresses of each list's tensors.
            counts: how many elements the tensors of a place have.
            numbers: 16 bytes for each operand that is a number.
            fault: where the kernel's faults are noted, if not in the backend's own place.
        """
        self.refuse("run kernels", self.name)

    def together(self):
        """A block whose elementwise launches may be put together, in their order."""
        return contextlib.nullcontext()

    def run_spans(self, kernel, device, addresses, ints, total, whole=False):
        """Runs a kernel over its parallel axis.

        Args:
            kernel: what `specialize` gave.
            addresses: the data pointers; 0 where there is none.
            ints: sizes, strides and parameters, as the kernel lays them out.
            total: the length of the axis.
            whole: whether its items depend on one another.
        """
        self.refuse("run kernels", self.name)

    def run_rows(self, kernel, device, addresses, ints, rows, length, beside, held=()):
        """Runs a kernel over rows.

        Args:
            kernel: what `specialize` gave.
            addresses: the data pointers, results first.
            ints: sizes, strides and parameters, as the kernel lays them out.
            rows: how many there are.
            length: how many values each has.
            beside: whether the elements of neighbouring rows are neighbours.
            held: pairs of the position of a pointer, and of the integer that it is to.
        """
        self.refuse("run kernels", self.name)

    def run_scan(self, source, kinds, operands, outer, size, inner):
        """Scans rows by a layout of its own; whether there is one for these sizes.

        Args:
            source: the reduction whose states are wanted after each element.
            kinds: the input's dtype, the results', and the one that it is computed in.
            operands: the results and the input, all of them dense.
            outer, size, inner: elements before, along and after the dimension.
        """
        return False

    def run_selection(self, way, operands, extents, rank, descending, skip):
        """Selects from rows by a layout of its own; whether there is one for these sizes.

        Args:
            way: which elements; see `rushlight.kernels.select.device_select`.
            operands: the values, their places, and the rows, all of them dense.
            extents: how many rows there are, their size, and the parts of each.
            rank: from zero, of the last element that is wanted.
            descending: whether the largest come first.
            skip: whether the middle is that of numbers alone.
        """
        return False

    def sums_apart(self):
        """Whether `run_product` takes results of another dtype than their sums."""
        return False

    def run_product(
        self, device, element, compute, sizes, operands, scales, batch, result=None,
        behind=None,
    ):  # fmt: skip
        """Multiplies matrices: ``out = alpha left right + beta added``.

        Args:
            element: the name of the dtype of the left and right operand.
            compute: that of sums.
            sizes: rows, columns and depth.
            operands: out, left, right and added (or None): address, then steps in
                elements from row to row, from column to column, and in the batch.
            scales: alpha and beta.
            batch: how many products there are.
            result: the dtype of the result and of what is added, if that is another.
            behind: ``relu`` or ``gelu`` (by tanh), to be applied to the result.

        Returns:
            whether that was done.

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
            sizes: rows, columns and depth.
            operands: out, left and right as `run_product` has them; then the address of a
                vector that is added to every row, or None.
            scales: of the left and right operand, the address of float32, and whether there
                is one for each row, or column, or one for all; then the address of what
                an eight-bit result is multiplied by, or None.
            fast: whether sums may be rounded on their way.
        """
        return False

    def attends(self, device, dtype, depth, width, masked, dropout=False):
        """Whether `run_attention` is there, and wanted, for queries and values.

        Args:
            depth, width: elements of a query, and of a value.
            masked: whether there is a mask.
            dropout: whether weights are left out by chance.
        """
        return False

    def run_attention(
        self, results, operands, log_mass, is_causal, scale, dropout=None
    ):
        """Attention of four-dimensional tensors that `attends` speaks of.

        Args:
            results: where results are written.
            operands: queries, keys, values and the mask (or None); rows but the mask's are
                whole runs of 16 bytes.
            log_mass: for each query, where the logarithm of its mass is written.
            is_causal: whether keys after a query are hidden.
            scale: of scores.
            dropout: the chance of a weight to be left out, and where the stream's words
                are that say which: seed and offset, or two integers in the device's
                memory; or None.
        """
        self.refuse("attend", results.device)

    def run_attention_gradients(
        self, results, grad, out, operands, log_mass, is_causal, scale, dropout=None
    ):
        """Gradients of `run_attention`; whether there are kernels for them.

        Args:
            results: where those of queries, keys and values are written, or None.
            grad: that of what attention gave, which is ``out``; both laid out in runs.
            operands, log_mass, is_causal, scale, dropout: as there.
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
            result: a dense tensor that is written to.
            first: the input, or the gradient of the output where that of an input is wanted.
            second: the weight, or the gradient of the output where that of one is wanted.
            vector: what is added to each channel of ``forward``, or None.
            last: whether channels are the last in the memory of all of them.
            stride, padding, dilation: for each dimension of space.
        """
        return False

    def graph(self, device):
        """A new record of work that is launched as a whole; None where there are none.

        It has ``write(function)``, which calls a function whose work is written down and
        not done, ``enter(addresses)``, to be called before its memory is touched again,
        ``launch()`` and ``reset()``.
        """
        return None

    def is_writing(self, device):
        """Whether a device's work is being written down."""
        return False

    def refuse(self, what, device):
        """Raises what tells that the backend does not do something."""
        raise NotImplementedError(f"the backend '{self.name}' does not {what}")

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def take(
        self, n_bytes: cython.size_t, device: Device, data: cython.pp_char
    ) -> cython.int:
        address: uintptr_t = self.allocate(n_bytes, device)
        if address == 0:
            raise RuntimeError(
                f"{device}: out of memory, {n_bytes} bytes were asked for"
            )
        data[0] = cython.cast(cython.p_char, address)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def give(
        self, data: cython.p_char, n_bytes: cython.size_t, device: Device
    ) -> cython.int:
        self.free(cython.cast(uintptr_t, data), n_bytes, device)
        return 0


@cython.cclass
class Unclaimed(Backend):
    """Serves the outside device until somebody registers a backend: by host memory."""

    def allocate(self, n_bytes, device):
        """A block that kernels of the host could read, too."""
        return cython.cast(uintptr_t, malloc(n_bytes))

    def free(self, address: uintptr_t, n_bytes, device):
        """Takes it back."""
        free(cython.cast(cython.p_void, address))

    def copy_bytes(
        self,
        target: uintptr_t,
        to,
        source: uintptr_t,
        of,
        n_bytes: cython.size_t,
        non_blocking=False,
    ):
        """Both ends are on the host."""
        memcpy(
            cython.cast(cython.p_void, target),
            cython.cast(cython.p_void, source),
            n_bytes,
        )


# None: its package registers it when the first of its devices is used.
_BACKENDS = cython.declare(
    list, [Backend("cpu"), None, Backend("meta"), Unclaimed("privateuseone")]
)
_LATE = cython.declare(dict, {})  # kind -> package


def register_late(kind, package):
    """Has the module ``backend`` of a package serve a kind when it is first used.

    Args:
        kind: ``"cuda"``.
        package: its name; its module ``driver`` says whether there are such devices.
    """
    _LATE[_KINDS[kind]] = package


@cython.cfunc
def refuse_unserved(device: Device):
    """Refuse tensors on devices of a type that is a name here and no more."""
    if device.type == "xpu":
        raise AssertionError(
            "Torch not compiled with XPU enabled\n"
            "  remedy: device='cpu', 'cuda' or 'meta'"
        )
    raise NotImplementedError(
        f"Could not run an operator with arguments from the '{device.type.upper()}' "
        f"backend: no backend serves devices of type '{device.type}'.\n"
        "  remedy: device='cpu', 'cuda' or 'meta'"
    )


@cython.cfunc
def backend_of(device: Device) -> Backend:
    if device.kind >= N_KINDS:
        refuse_unserved(device)
    if _BACKENDS[device.kind] is None:
        importlib.import_module(_LATE[device.kind] + ".backend")
    return cython.cast(Backend, _BACKENDS[device.kind])


def refuse_written(device) -> None:
    """Refuses to settle a place in a stream of random numbers for work that is written
    down: it would draw the same numbers each time.

    Raises:
        RuntimeError: the thread's work on the device is.
    """
    if backend_for(device).recorder(device) is not None:
        raise RuntimeError(
            "Random numbers of this operator cannot be written down: a graph would draw "
            "the same ones each time"
        )


def compiles(kind: cython.int) -> bool:
    """Whether generated kernels run on devices of a kind, of which there are some."""
    backend = _BACKENDS[kind]
    return kind == KIND_CPU or backend is not None and backend.compiles()


def current_card() -> int:
    """Which device is meant where one is named without a number; 0 before any is used."""
    backend = _BACKENDS[KIND_CUDA]
    return 0 if backend is None else backend.current_device()


def backend_for(device):
    """The backend that serves a device."""
    return backend_of(as_device(device))


def register_backend(kind, backend):
    """Has a backend serve the devices of a type, from now on.

    Args:
        kind: ``"cuda"`` or ``"privateuseone"``, or the name that the latter was given.
        backend: a `Backend`.

    Returns:
        the one that did before.

    Raises:
        RuntimeError: the host and ``meta`` are served by Rushlight itself.
    """
    device: Device = Device(kind)
    if device.on_host or not device.has_memory:
        raise RuntimeError(f"devices of type '{device.type}' have their backend")
    if device.kind >= N_KINDS:
        refuse_unserved(device)
    if not isinstance(backend, Backend):
        raise TypeError(f"a backend is a Backend, not {type(backend).__name__}")
    previous = _BACKENDS[device.kind]
    _BACKENDS[device.kind] = backend
    return previous


CPU_DEVICE = cython.declare(Device, Device("cpu"))
META_DEVICE = cython.declare(Device, Device("meta"))
cpu = CPU_DEVICE
meta = META_DEVICE


@cython.cfunc
def as_device(spec: object) -> Device:
    if spec is None:
        return CPU_DEVICE
    if isinstance(spec, Device):
        return spec
    if spec == "cpu":
        return CPU_DEVICE
    return Device(spec)


class _Threads(threading.local):
    """What each thread goes back to at the end of its ``with device:`` blocks."""

    def __init__(self):
        self.left = []


_THREADS = cython.declare(object, _Threads())
# the state of a thread holds numbers only: what they mean lives here
_DEFAULTS = cython.declare(dict, {})


@cython.cfunc
def default_device() -> Device:
    st: cython.pointer(ThreadState) = state()
    if not st.elsewhere:
        return CPU_DEVICE
    return _DEFAULTS[st.device_kind, st.device_index]


@cython.cfunc
def switch_default(where: object) -> Device:
    """Says where this thread's factories put their tensors; where they did before."""
    st: cython.pointer(ThreadState) = state()
    previous: Device = default_device() if st.elsewhere else None
    device: Device = where
    index: cython.int
    if device is not None:
        index = -1 if device.index is None else device.index
        _DEFAULTS[device.kind, index] = device
        st.device_kind, st.device_index = device.kind, index
    st.elsewhere = device is not None
    return previous


def get_default_device():
    """Where factories without ``device=`` put this thread's tensors."""
    return default_device()


def set_default_device(device):
    """Choose where factories without ``device=`` put this thread's tensors.

    Args:
        device: a device or its name; None goes back to the CPU.

    >>> set_default_device("meta")
    >>> get_default_device()
    device(type='meta')
    >>> set_default_device(None)
    """
    switch_default(None if device is None else as_device(device))


def rename_privateuse1_backend(name):
    """Give the PrivateUse1 device type a name of its own, such as ``"toy"``."""
    if _BACKEND_NAME[0] not in ("privateuseone", name):
        raise RuntimeError(
            f"{naming.package}.rename_privateuse1_backend() has already been set: the backend "
            f"is called '{_BACKEND_NAME[0]}'"
        )
    if name in _KINDS and _KINDS[name] != KIND_PRIVATEUSE1:
        raise RuntimeError(f"'{name}' is already the name of a device type")
    _BACKEND_NAME[0] = name
    _KINDS[name] = KIND_PRIVATEUSE1
