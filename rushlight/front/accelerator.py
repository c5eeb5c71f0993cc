"""The accelerator beside the CPU, whatever it is: there is none."""

from rushlight._stubs import no_devices, refusing

__all__ = [
    "current_accelerator",
    "current_device_idx",
    "current_device_index",
    "current_stream",
    "device_count",
    "device_index",
    "empty_cache",
    "empty_host_cache",
    "get_device_capability",
    "get_memory_info",
    "is_available",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "set_device_idx",
    "set_device_index",
    "set_stream",
    "synchronize",
]


is_available, device_count = no_devices(__name__)


def current_accelerator(check_available=False):
    """Its device: None."""
    return None


class device_index:
    """Makes a device the current one for a block; ``None`` changes nothing."""

    def __init__(self, device):
        self.idx = device

    def __enter__(self):
        if self.idx is not None:
            set_device_index(self.idx)

    def __exit__(self, *raised):
        return False


def _refuse():
    raise RuntimeError("Cannot access accelerator device when none is available.")


for _name in set(__all__) - set(globals()):
    globals()[_name] = refusing(
        __name__, _name, _refuse, "RuntimeError: there is no accelerator."
    )
