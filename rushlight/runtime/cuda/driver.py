"""The CUDA driver: one door for every call, with its result looked at.

`load` finds NVIDIA's bindings. Anything with the same functions can stand in for them:
the tests put a driver there that checks what it is asked.
"""

import os
import threading

from rushlight.core.errors import AcceleratorError, OutOfMemoryError
from rushlight.runtime.cuda.launch import set_entry

OUT_OF_MEMORY = 2
NOT_READY = 600
PEER_ACCESS_ALREADY_ENABLED = 704

_lock = threading.Lock()
_found: list = []
_forked: list = []  # whether this process was forked from one that had started the driver


class Driver:
    """The driver's functions, by name.

    Args:
        bindings: a module with the functions of ``cuda.bindings.driver``: each gives a
            tuple whose first entry is the result code.
    """

    OUT_OF_MEMORY = OUT_OF_MEMORY  # for those below, who have the object alone

    def __init__(self, bindings):
        self.bindings = bindings
        self.version = 0

    def start(self):
        """Sets the driver up, once, before anything else.

        Raises:
            RuntimeError: it is older than the bindings, or finds no device.
        """
        self.call("cuInit", 0)
        self.version = self.call("cuDriverGetVersion")
        address, _ = self.call("cuGetProcAddress", b"cuLaunchKernel", 12000, 0)
        set_entry(int(address))

    def ask(self, name, *args):
        """A call's result code and its values, whatever the code is."""
        code, *values = getattr(self.bindings, name)(*args)
        return int(code), values

    def call(self, name, *args):
        """A call's value: None, the value itself, or a tuple of several.

        Raises:
            OutOfMemoryError: the device has no memory left.
            AcceleratorError: the driver reports any other error.
        """
        code, *values = getattr(self.bindings, name)(*args)
        if code:
            self.refuse(int(code), name)
        if not values:
            return None
        return values[0] if len(values) == 1 else tuple(values)

    def describe(self, code):
        """The driver's name and text of a result code."""
        texts = []
        for function in ("cuGetErrorName", "cuGetErrorString"):
            failed, text = self._text(function, code)
            texts.append(f"code {code}" if failed else text)
        return tuple(texts)

    def _text(self, function, code):
        result = getattr(self.bindings, "CUresult", int)
        try:
            failed, text = getattr(self.bindings, function)(result(code))
        except ValueError:  # a code that the bindings are too old to know
            return True, ""
        return int(failed), text.decode() if isinstance(text, bytes) else text

    def refuse(self, code, function):
        """Raises what a result code stands for."""
        name, text = self.describe(code)
        lines = [f"CUDA error: {text}", f"  driver: {function} returned {name}"]
        if code == OUT_OF_MEMORY:
            raise OutOfMemoryError("\n".join(lines))
        lines.append(
            "  An error of a kernel may be reported by a later call than the one that "
            "launched it.\n"
            "  remedy: run again with CUDA_LAUNCH_BLOCKING=1, which waits for each kernel"
        )
        error = AcceleratorError("\n".join(lines))
        error.error_code = code
        raise error


def load():
    """The driver of this machine; the same one each time.

    Raises:
        RuntimeError: the bindings are not installed, there is no driver, or no device.
    """
    if _found:
        return _found[0]
    if _forked:
        raise RuntimeError(
            "Cannot re-initialize CUDA in forked subprocess. To use CUDA with "
            "multiprocessing, you must use the 'spawn' start method"
        )
    with _lock:
        if not _found:
            _found.append(_start())
    return _found[0]


def in_bad_fork():
    """Whether this process was forked from one that had started the driver."""
    return bool(_forked)


def _leave_in_child():
    global _lock
    _lock = threading.Lock()
    if _found:
        _forked.append(True)
        _found.clear()


os.register_at_fork(after_in_child=_leave_in_child)


def loaded():
    """Whether the driver has been set up."""
    return bool(_found)


def present():
    """Whether a driver and a device are there; never raises."""
    try:
        load()
    except RuntimeError:
        return False
    return True


def _start():
    try:
        from cuda.bindings import driver as bindings
    except ImportError as error:
        raise RuntimeError(
            "No NVIDIA GPU can be used: the package cuda-bindings is not installed\n"
            "  remedy: pip install rushlight[cuda]"
        ) from error
    driver = Driver(bindings)
    try:
        driver.start()
    except RuntimeError as error:
        first = str(error).partition("\n")[0].removeprefix("CUDA error: ")
        raise RuntimeError(
            "Found no NVIDIA driver on your system. Please check that you have an NVIDIA "
            f"GPU and installed a driver from http://www.nvidia.com/Download/index.aspx\n  {first}"
        ) from error
    return driver


def replace(driver):
    """Puts another driver in place, or None for the machine's own; the one before."""
    with _lock:
        before = _found[0] if _found else None
        _found[:] = [] if driver is None else [driver]
    return before
