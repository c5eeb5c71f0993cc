"""Which device a call means."""

from rushlight.core.device import Device
from rushlight.runtime.cuda import backend, contexts, driver

_tried: list = []


def ready():
    """Whether a driver and a device are there; looked for once."""
    if driver.loaded():
        return True
    if not _tried:
        _tried.append(driver.present())
    return driver.loaded()


def need():
    """Refuses where there is no device."""
    if not ready():
        backend.refuse()


def index_of(device):
    """The number of the device that an argument means; None is the current one."""
    if isinstance(device, bool) or not (
        device is None or isinstance(device, (int, str, Device))
    ):
        raise ValueError(
            "Expected a torch.device with a specified index or an integer, but got:"
            f"{device}"
        )
    if device is None:
        return contexts.current_index()
    if isinstance(device, int):
        return device
    where = Device(device) if isinstance(device, str) else device
    if where.type != "cuda":
        raise ValueError(f"Expected a cuda device, but got: {where}")
    return contexts.current_index() if where.index is None else where.index


def need_binding(name):
    """Refuses what PyTorch has only where it is built for GPUs.

    Raises:
        AttributeError: there is no GPU.
    """
    try:
        need()
    except AssertionError:
        raise AttributeError(f"module 'torch._C' has no attribute {name!r}") from None


def context_for(device=None):
    """The device that an argument means.

    Raises:
        AssertionError: there is no GPU.
        RuntimeError: none has that number.
    """
    need()
    return contexts.ctx(index_of(device))
