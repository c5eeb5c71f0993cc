"""Devices: where bytes live, as a type and an index."""

from __future__ import annotations

import functools
import importlib
import threading

import cython
from cython.cimports.cpython.bytes import PyBytes_FromStringAndSize
from cython.cimports.libc.stdint import uintptr_t
from cython.cimports.libc.stdlib import free, malloc
from cython.cimports.libc.string import memcpy
from cython.cimports.rushlight.core.state import ThreadState, state

from rushlight.core import device_roles, naming

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
        return (Device, (self.type, self.index)[: 1 + (self.index is not None)])

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
class PlannedLaunch:
    """A launch of a backend's that can be repeated with other pointers and numbers."""

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def submit(self, data: cython.pp_char, numbers: cython.p_double) -> cython.int:
        """Puts it into this thread's queue."""
        return 0


@cython.cfunc
def launch_tuple(call: cython.pointer(Elements)) -> tuple:
    addresses: list = []
    strides: list = []
    k: cython.int
    d: cython.int
    for k in range(call.plan.n_operands):
        if call.data[k] == cython.NULL:
            addresses.append(None)
            strides.append(None)
            continue
        addresses.append(cython.cast(uintptr_t, call.data[k]))
        strides.append(tuple([call.plan.strides[k][d] for d in range(call.plan.ndim)]))
    sizes = tuple([call.plan.sizes[d] for d in range(call.plan.ndim)])
    return tuple(addresses), sizes, tuple(strides)


@cython.cclass
class Backend:
    """What serves all devices of one kind, by an object of each role.

    Subclasses replace the roles that theirs fill; what they leave out is refused.
    Addresses are numbers of the device's own: nobody but the backend looks at what is there.

    Args:
        name: what the devices are called, such as ``"cuda"``.

    Attributes:
        memory: a `device_roles.Memory`: blocks, bytes that move, locked host memory.
        streams: a `device_roles.Streams`: queues of work and marks in them.
        launch: a `device_roles.Launch`: generated kernels.
        libraries: a `device_roles.Libraries`: products, convolutions, attention, selection.
        graphs: a `device_roles.Graphs`: work that is recorded and launched as a whole.
    """

    def __init__(self, name):
        self.name = name
        self.memory = device_roles.Memory(name)
        self.streams = device_roles.Streams(name)
        self.launch = device_roles.Launch(name)
        self.libraries = device_roles.Libraries(name)
        self.graphs = device_roles.Graphs(name)

    def roles(self):
        """Its modules by role, where it has some; see `core.roles`."""
        return None

    def place(self, device):
        """The very device that is meant by one without a number."""
        return device

    def device_count(self):
        """How many devices there are."""
        return 0

    def current_device(self):
        """The index of the device that is meant where none is named."""
        return 0

    def set_device(self, index):
        """Names the device that is meant where none is named, in this thread."""
        self.refuse("choose a device", self.name)

    def generator(self, device):
        """The generator that a device's random numbers come from."""
        self.refuse("draw random numbers", device)

    def processors(self, device):
        """How many processors a device has, and how many threads each of them runs."""
        self.refuse("count its processors", device)

    def refuse(self, what, device):
        """Raises what tells that the backend does not do something."""
        self.memory.refuse(what, device)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def take(
        self, n_bytes: cython.size_t, device: Device, data: cython.pp_char
    ) -> cython.int:
        address: uintptr_t = self.memory.allocate(n_bytes, device)
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
        self.memory.free(cython.cast(uintptr_t, data), n_bytes, device)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def run_elements(
        self, kernel: object, device: Device, call: cython.pointer(Elements)
    ) -> cython.int:
        addresses, sizes, strides = launch_tuple(call)
        numbers: bytes = PyBytes_FromStringAndSize(
            cython.cast(cython.p_char, call.numbers), 16 * call.n_numbers
        )
        self.launch.run_elements(
            kernel, device, addresses, sizes, strides, numbers, call.total
        )
        return 0


class HostBlocks(device_roles.Memory):
    """Memory of the outside device until somebody registers a backend: the host's."""

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


def host() -> Backend:
    """What serves the host; memory and launches are inlined where they are needed."""
    backend: Backend = Backend("cpu")
    backend.launch = device_roles.HostLaunch(backend.name)
    return backend


def unclaimed() -> Backend:
    """What serves the outside device until somebody registers a backend."""
    backend: Backend = Backend("privateuseone")
    backend.memory = HostBlocks(backend.name)
    return backend


# None: its package registers it when the first of its devices is used.
_BACKENDS = cython.declare(list, [host(), None, Backend("meta"), unclaimed()])
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
    if backend_for(device).graphs.recorder(device) is not None:
        raise RuntimeError(
            "Random numbers of this operator cannot be written down: a graph would draw "
            "the same ones each time"
        )


def compiles(kind: cython.int) -> bool:
    """Whether generated kernels run on devices of a kind, of which there are some."""
    backend = _BACKENDS[kind]
    return kind == KIND_CPU or backend is not None and backend.launch.compiles()


def current_cuda_index() -> int:
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
    if not st.factory_device:
        return CPU_DEVICE
    return _DEFAULTS[st.device_kind, st.device_index]


@cython.cfunc
def switch_default(where: object) -> Device:
    """Says where this thread's factories put their tensors; where they did before."""
    st: cython.pointer(ThreadState) = state()
    previous: Device = default_device() if st.factory_device else None
    device: Device = where
    index: cython.int
    if device is not None:
        index = -1 if device.index is None else device.index
        _DEFAULTS[device.kind, index] = device
        st.device_kind, st.device_index = device.kind, index
    st.factory_device = device is not None
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
