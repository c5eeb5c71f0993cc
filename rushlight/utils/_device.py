"""The default device as a mode: factories of a block put their tensors on it."""

import functools

import rushlight as rl
from rushlight.core.device import Device
from rushlight.overrides import (
    TorchFunctionMode,
    _get_current_function_mode_stack,
    _pop_mode,
    _push_mode,
)

__all__ = ["DeviceContext", "device_decorator", "set_device"]

_FACTORIES = """
    empty empty_permuted empty_strided ones arange bartlett_window blackman_window eye full
    hamming_window hann_window kaiser_window linspace logspace rand randn randint randperm
    range sparse_coo_tensor sparse_compressed_tensor sparse_csr_tensor sparse_csc_tensor
    sparse_bsr_tensor sparse_bsc_tensor tril_indices triu_indices zeros asarray tensor
    as_tensor scalar_tensor
""".split()


@functools.cache
def _device_constructors():
    """The functions that take ``device=`` from the mode."""
    found = {getattr(rl, name) for name in _FACTORIES if hasattr(rl, name)}
    found |= {rl.fft.fftfreq, rl.fft.rfftfreq}
    windows = rl.signal.windows
    return found | {getattr(windows, name) for name in windows.__all__}


class DeviceContext(TorchFunctionMode):
    """A function mode that gives ``device=`` to the factories called in its block.

    ``with torch.device(...)`` does the same without a mode: nothing is asked of each
    call. This one is there for programs that look for it among the modes, of which it
    is the outermost.

    Args:
        device: where tensors go that are made without ``device=``.

    >>> import rushlight as rl
    >>> with DeviceContext("meta"):
    ...     rl.ones(2).device
    device(type='meta')
    """

    def __init__(self, device):
        self.device = Device(device)

    def __enter__(self):
        # what layers and composite operators make inside follows without being asked
        self.device.__enter__()
        others = [_pop_mode() for _ in _get_current_function_mode_stack()]
        for mode in (self, *reversed(others)):  # outside of all that are there
            _push_mode(mode)
        return self

    def __exit__(self, *raised):
        self.device.__exit__(*raised)
        found = [_pop_mode() for _ in _get_current_function_mode_stack()]
        found.remove(self)
        for mode in reversed(found):
            _push_mode(mode)

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in _device_constructors() and kwargs.get("device") is None:
            kwargs = {**kwargs, "device": self.device}
        return func(*args, **kwargs)


def device_decorator(device, func):
    """A function that runs inside ``with device():``.

    Args:
        device: a function without arguments that makes the context.
        func: what runs inside.
    """

    @functools.wraps(func)
    def wrapped(*args, **kwargs):
        with device():
            return func(*args, **kwargs)

    return wrapped


def set_device(device):
    """A decorator: the function's factories put their tensors on a device.

    Args:
        device: the device, or its name.

    >>> import rushlight as rl
    >>> @set_device("meta")
    ... def weights():
    ...     return rl.zeros(3)
    >>> weights().device
    device(type='meta')
    """
    return lambda func: device_decorator(lambda: Device(device), func)
