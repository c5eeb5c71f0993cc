"""NVIDIA's libraries: one door for every call of one, through the package ``nvmath-python``.

A `Library` finds its functions when one is first called. Anything with the same functions
can stand in for them: the tests put libraries there that check what they are asked, and
do the work late.
"""

from __future__ import annotations

import threading
from importlib import import_module

from rushlight.backends.nvidia import contexts
from rushlight.backends.nvidia.driver import operator_running
from rushlight.core.errors import AcceleratorError, OutOfMemoryError

BINDINGS = "nvmath.bindings."
ALLOCATION_FAILED = {"CUBLAS": 3, "CUSOLVER": 2, "CUFFT": 2}  # codes of full cards


class Library:
    """One of NVIDIA's libraries.

    Args:
        name: what messages call it.
        module: of the bindings, which has its functions.
    """

    def __init__(self, name, module):
        self.name, self.module = name, module
        self.found = None
        self.missing = ""
        self.lock = threading.Lock()
        self.handles: dict = {}  # by card and thread

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
            self.found = import_module(BINDINGS + self.module)
        except ImportError as error:
            self.missing = str(error)

    def present(self):
        """Whether it can be called."""
        try:
            self.bindings()
        except NotImplementedError:
            return False
        return True

    def call(self, card, function, *args):
        """What a function gives, called in a card's context.

        Raises:
            OutOfMemoryError: the library finds no memory on the card.
            AcceleratorError: it reports any other error.
        """
        bindings = self.bindings()
        card.enter()
        try:
            return getattr(bindings, function)(*args)
        except (AttributeError, TypeError):
            raise
        except Exception as error:
            if not hasattr(error, "status"):
                raise
            lines = [f"{self.name} error: {error}", f"  function: {function}"]
            if operator := operator_running():
                lines.append(f"  operator: {operator}")
            full = ALLOCATION_FAILED.get(self.name.upper()) == int(error.status)
            kind = OutOfMemoryError if full else AcceleratorError
            raise kind("\n".join(lines)) from error

    def handle(self, card):
        """This thread's handle on a card, whose work goes into the thread's queue."""
        key = card.index, threading.get_ident()
        found = self.handles.get(key)
        if found is None:
            found = self.handles[key] = self.call(card, "create")
        self.call(card, "set_stream", found, queue(card))
        return found

    def forget(self):
        """Lets go of all handles, and looks for the library anew."""
        self.handles.clear()
        self.found, self.missing = None, ""


def queue(card):
    """The driver's handle of this thread's queue."""
    return int(contexts.current_stream(card).handle)


CUSOLVER = Library("cuSOLVER", "cusolverDn")
CUBLAS = Library("cuBLAS", "cublas")
CUBLAS_LT = Library("cuBLASLt", "cublasLt")
CUFFT = Library("cuFFT", "cufft")
ALL = (CUSOLVER, CUBLAS, CUBLAS_LT, CUFFT)
