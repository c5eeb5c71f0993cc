"""NVIDIA's libraries: one door for every call of one, through NVIDIA's Python packages.

A `Library` finds its functions when one is first called. Anything with the same functions
can stand in for them: the tests put libraries there that check what they are asked, and
do the work late.
"""

import threading
from importlib import import_module

from rushlight.core.errors import AcceleratorError, OutOfMemoryError
from rushlight.runtime.cpu.launch import count_launch
from rushlight.runtime.cuda import contexts

BINDINGS = "nvmath.bindings."
ALLOCATION_FAILED = {"CUBLAS": 3, "CUSOLVER": 2, "CUFFT": 2}  # codes of full devices


class Library:
    """One of NVIDIA's libraries.

    Args:
        name: what messages call it.
        module: which has its functions.
        maker: the function that makes a handle.
        plain: names of exceptions, beside those with a status, that are the library's.
    """

    def __init__(self, name, module, maker="create", plain=()):
        self.name, self.module = name, module
        self.maker, self.plain = maker, plain
        self.found = None
        self.missing = ""
        self.lock = threading.Lock()
        self.handles: dict = {}  # by device and thread
        self.queues: dict = {}  # that those work in

    def bindings(self):
        """The module with its functions.

        Raises:
            NotImplementedError: it is not on this machine.
        """
        if self.found is None and not self.missing:
            with self.lock:
                self.find()
        if self.found is None:
            raise NotImplementedError(
                f"launch: {self.name} is not on this machine, which cannot read a tensor "
                f"on a GPU without it: {self.missing}\n"
                "  remedy: pip install rushlight[cuda-libraries], or move the tensor with "
                ".cpu()"
            )
        return self.found

    def find(self):
        """Imports the bindings, or notes why they are not there."""
        try:
            self.found = import_module(self.module)
        except (ImportError, OSError) as error:  # the latter for want of the library
            self.missing = str(error)

    def present(self):
        """Whether it can be called."""
        try:
            self.bindings()
        except NotImplementedError:
            return False
        return True

    def pointer(self, function):
        """The address of a C function; 0 where something stands in for the library."""
        if getattr(self.bindings(), "__name__", "") != self.module:
            return 0
        place, _, name = self.module.rpartition(".")
        inner = import_module(f"{place}._internal.{name}")
        return inner._inspect_function_pointers().get(f"__{function}", 0)

    def call(self, ctx, function, *args, **named):
        """What a function gives, called in a device's context.

        Args:
            device: where.
            function: its name, or what a name has given: a function of an object.
            args: what it takes.
            named: the same by name.

        Raises:
            OutOfMemoryError: the library finds no memory on the device.
            AcceleratorError: it reports any other error.
        """
        bindings = self.bindings()
        ctx.enter()
        count_launch()
        called = function if callable(function) else getattr(bindings, function)
        try:
            return called(*args, **named)
        except (AttributeError, TypeError):
            raise
        except Exception as error:
            if not hasattr(error, "status") and type(error).__name__ not in self.plain:
                raise
            name = getattr(function, "__name__", function)  # a text has none
            lines = [f"{self.name} error: {error}", f"  function: {name}"]
            status = int(getattr(error, "status", 0))
            full = ALLOCATION_FAILED.get(self.name.upper(), -1) == status
            kind = OutOfMemoryError if full else AcceleratorError
            raise kind("\n".join(lines)) from error

    def handle(self, ctx):
        """This thread's handle on a device, whose work goes into the thread's queue."""
        key = ctx.index, threading.get_ident()
        found = self.handles.get(key)
        if found is None:
            found = self.handles[key] = self.call(ctx, self.maker)
        where = queue(ctx)
        if self.queues.get(key) != where:
            self.call(ctx, "set_stream", found, where)
            self.queues[key] = where
        return found

    def forget(self):
        """Lets go of all handles, and looks for the library anew."""
        self.handles.clear()
        self.queues.clear()
        self.found, self.missing = None, ""


def queue(ctx):
    """The driver's handle of this thread's queue."""
    return int(contexts.current_stream(ctx).handle)


CUSOLVER = Library("cuSOLVER", BINDINGS + "cusolverDn")
CUBLAS = Library("cuBLAS", BINDINGS + "cublas")
CUBLAS_LT = Library("cuBLASLt", BINDINGS + "cublasLt")
CUFFT = Library("cuFFT", BINDINGS + "cufft")
UNSUPPORTED = "cudnnGraphNotSupportedError"
CUDNN = Library("cuDNN", "cudnn", "create_handle", ("RuntimeError", UNSUPPORTED))
ALL = (CUSOLVER, CUBLAS, CUBLAS_LT, CUFFT, CUDNN)
