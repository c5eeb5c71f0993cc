"""Intel's GPUs: there is no backend for them."""

import collections

from rushlight._stubs import no_devices, refusing

default_generators: tuple = ()


def _refuse():
    raise AssertionError(
        "Torch not compiled with XPU enabled: Rushlight has no XPU backend\n"
        '  remedy: keep tensors on device="cpu"'
    )


is_available, device_count = no_devices(__name__)


def is_initialized():
    """Whether the driver has been set up."""
    return False


def _is_in_bad_fork():
    """Whether this process was forked from one that had started the driver."""
    return False


def is_bf16_supported(including_emulation=True):
    """Whether a device computes in bfloat16."""
    return False


def is_tf32_supported():
    """Whether a device computes in TF32."""
    return False


def get_arch_list():
    """The architectures that kernels were built for: none."""
    return []


def get_gencode_flags():
    """The compiler's flags for those architectures: none."""
    return ""


def get_rng_state_all():
    """The states of all devices' generators: none."""
    return []


def memory_stats(device=None):
    """Figures of the device's allocator: none."""
    return collections.OrderedDict()


def memory_allocated(device=None):
    """The bytes of device memory in use: none."""
    return 0


def max_memory_allocated(device=None):
    """The most bytes of device memory ever in use: none."""
    return 0


def memory_reserved(device=None):
    """The bytes of device memory kept: none."""
    return 0


def max_memory_reserved(device=None):
    """The most bytes of device memory ever kept: none."""
    return 0


def manual_seed(seed):
    """Seed the device's generator; without a device, nothing happens."""


def manual_seed_all(seed):
    """Seed all devices' generators; without a device, nothing happens."""


def seed():
    """Seed the device's generator at random; without a device, nothing happens."""


def seed_all():
    """Seed all generators at random; without a device, nothing happens."""


def empty_cache():
    """Release cached memory; without a device, nothing happens."""


for _name in """
    synchronize current_device get_device_name get_device_capability get_device_properties
    get_rng_state set_rng_state initial_seed current_stream set_stream mem_get_info init
    reset_peak_memory_stats reset_accumulated_memory_stats set_device
""".split():
    globals()[_name] = refusing(
        __name__, _name, _refuse, "AssertionError: there is no such device."
    )


class device:
    """Makes a device the current one for a block: there is none, nothing changes."""

    def __init__(self, device):
        self.idx = device

    def __enter__(self):
        return None

    def __exit__(self, *raised):
        return False


class _Refused:
    """A thing on a device: making one raises."""

    def __init__(self, *args, **kwargs):
        raise RuntimeError(
            f"torch.xpu.{type(self).__name__} requires XPU support: Rushlight has no XPU "
            "backend"
        )


class Stream(_Refused):
    """A queue of a device's."""


class Event(_Refused):
    """A moment in a queue."""
