"""Devices: where bytes live, as a type and an index."""

from __future__ import annotations

import functools
import threading

import cython
from cython.cimports.rushlight.core.state import ThreadState, state

from rushlight.core import naming

_KINDS = cython.declare(dict, {"cpu": 0, "cuda": 1, "meta": 2, "privateuseone": 3})
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
            return
        if isinstance(device, int) and not isinstance(device, bool):
            device, index = "cuda", device
        if not isinstance(device, str):
            raise TypeError(
                "device(): argument 'device' must be str, int or "
                f"{naming.package}.device, "
                f"not {device.__class__.__name__}"
            )
        self._parse(device, index)

    def _parse(self, text, index):
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
        self.type = _BACKEND_NAME[0] if self.kind == 3 else name
        self.index = index

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
    if name in _KINDS and _KINDS[name] != 3:
        raise RuntimeError(f"'{name}' is already the name of a device type")
    _BACKEND_NAME[0] = name
    _KINDS[name] = 3
