"""What tensors of a group go through: the names of backends, and what stands behind them."""

from importlib.util import find_spec

from rushlight.distributed import constants
from rushlight.distributed.process_group import ProcessGroupGloo
from rushlight.distributed.process_group_mpi import find_processes
from rushlight.distributed.process_group_nccl import (
    ProcessGroupByDevice,
    ProcessGroupNCCL,
)
from rushlight.distributed.stores import PrefixStore
from rushlight.runtime.cuda import contexts
from rushlight.runtime.cuda.nccl import NCCL

__all__ = [
    "Backend",
    "BackendConfig",
    "get_default_backend_for_device",
    "is_backend_available",
    "is_gloo_available",
    "is_mpi_available",
    "is_nccl_available",
    "is_ucc_available",
    "is_xccl_available",
]

HOST_AND_DEVICES = "cpu:gloo,cuda:nccl"


class Backend(str):
    """The name of what processes talk through.

    >>> Backend("GLOO"), Backend.GLOO
    ('gloo', 'gloo')
    """

    UNDEFINED = "undefined"
    GLOO = "gloo"
    NCCL = "nccl"
    UCC = "ucc"
    MPI = "mpi"
    XCCL = "xccl"
    FAKE = "fake"
    backend_list = [UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE]
    default_device_backend_map = {"cpu": GLOO, "cuda": NCCL}
    _plugins: dict = {}

    def __new__(cls, name):
        if not isinstance(name, str):
            raise ValueError("Backend constructor parameter must be string-ish")
        return str.__new__(cls, name.lower())

    @classmethod
    def register_backend(cls, name, func, extended_api=False, devices=None):
        """Name one more backend.

        Args:
            name: its name.
            func: called with store, rank, size and timeout; gives a process group.
            extended_api: whether ``func`` takes two objects with all of these.
            devices: the devices whose tensors it takes.

        Raises:
            RuntimeError: there is one of that name.
        """
        if hasattr(cls, name.upper()):
            raise RuntimeError(
                f"{name.lower()} c10d backend already exist"
                if name.lower() not in cls._plugins
                else f"{name.upper()} c10d backend creator function already exist"
            )
        setattr(cls, name.upper(), name.lower())
        cls.backend_list.append(name.lower())
        cls._plugins[name.lower()] = func


class BackendConfig:
    """The backend of each device, from ``gloo`` or ``cpu:gloo,cuda:nccl``.

    Args:
        backend: the text.

    >>> str(BackendConfig("gloo"))
    'cpu:gloo,cuda:gloo'
    """

    def __init__(self, backend):
        text = str(backend)
        if ":" in text:
            pairs = [each.split(":") for each in text.lower().split(",")]
            if any(len(pair) != 2 for pair in pairs):
                raise ValueError(
                    f"The custom backend string argument is invalid: {backend}.\n  "
                    "remedy: write cpu:gloo,cuda:nccl"
                )
            self.device_backend_map = {device: name for device, name in pairs}
        else:
            name = "gloo" if text == Backend.UNDEFINED else text
            devices = ("cuda",) if name == Backend.NCCL else ("cpu", "cuda")
            self.device_backend_map = dict.fromkeys(devices, name)

    def __repr__(self):
        pairs = self.device_backend_map.items()
        return ",".join(f"{device}:{backend}" for device, backend in pairs)

    def get_device_backend_map(self):
        """Device -> backend."""
        return self.device_backend_map


def is_gloo_available():
    """Whether groups of processes on hosts are there: yes."""
    return True


def is_nccl_available():
    """Whether NVIDIA's library of collectives is on this machine."""
    return NCCL.present()


def is_mpi_available():
    """Whether groups over MPI are there: where mpi4py is installed."""
    return find_spec("mpi4py") is not None


def is_ucc_available():
    """Whether UCC is used: no."""
    return False


def is_xccl_available():
    """Whether Intel's library is used: no."""
    return False


def is_backend_available(backend):
    """Whether a backend is there, by its name.

    Args:
        backend: as ``gloo``.
    """
    name = backend.lower()
    if name == Backend.MPI:
        return is_mpi_available()
    if name == Backend.NCCL:
        return is_nccl_available()
    return name == Backend.GLOO or name in Backend._plugins


def get_default_backend_for_device(device):
    """The backend that tensors of a device go through.

    Args:
        device: a device or its name.
    """
    kind = str(getattr(device, "type", device)).partition(":")[0]
    found = Backend.default_device_backend_map.get(kind)
    if found is None:
        raise ValueError(f"Default backend not registered for device : {device}")
    return found


def backend_for(backend):
    """The backend that tensors go through, or that of each device, as text.

    All must be there.
    """
    names = BackendConfig(backend).device_backend_map
    if backend == Backend.UNDEFINED and contexts.count() and is_nccl_available():
        names = Backend.default_device_backend_map
    host, device = names.get("cpu"), names.get("cuda")
    if host is not None:
        _check_backend(host)
    if device == Backend.NCCL and host in (None, Backend.GLOO):
        _check_backend(device)
        return device if host is None else HOST_AND_DEVICES
    return host or str(backend)


def _check_backend(name):
    """Raises where a backend is not there."""
    if name == Backend.MPI:
        find_processes()
    if name == Backend.NCCL:
        NCCL.library()
    if name in (Backend.UCC, Backend.XCCL):
        raise RuntimeError(
            f"Distributed package doesn't have {name.upper()} built in\n  remedy: "
            'backend="gloo", which takes tensors of the host and copies those of devices'
        )
    if not is_backend_available(name):
        raise ValueError(f"Unknown c10d backend type {name.upper()}")


def make_backend(backend, arguments, host, device, options):
    """The group of one backend, or of one for the host and one for devices."""
    if backend == Backend.NCCL:
        return ProcessGroupNCCL(*arguments, host, device, options)
    if backend != HOST_AND_DEVICES:
        return ProcessGroupGloo(*arguments, host)
    store, *rest = arguments
    below = {each: PrefixStore(each, store) for each in ("cpu", "cuda")}
    gloo = ProcessGroupGloo(below["cpu"], *rest, host)
    nccl = ProcessGroupNCCL(below["cuda"], *rest, host, device, options)
    return ProcessGroupByDevice({"cpu": gloo, "cuda": nccl})


def patience_of(backend, timeout):
    """How long a collective of a backend may take."""
    if timeout is not None:
        return timeout
    is_nccl = backend == Backend.NCCL
    return (
        constants.default_pg_nccl_timeout if is_nccl else constants.default_pg_timeout
    )
