"""All that a program launches, written down with its pointers and integers."""

from __future__ import annotations

import threading

import cython
from cython.cimports.cpython.bytes import PyBytes_FromStringAndSize
from cython.cimports.libc.stdint import uintptr_t
from cython.cimports.rushlight.core.keys import OBSERVE_ALL
from cython.cimports.rushlight.core.tensor import Tensor
from cython.cimports.rushlight.runtime.cpu.launch import (
    Launch,
    LaunchObserver,
    launched,
    set_observer,
    watch,
)

from rushlight.core.state import (
    include_keys,
    included_keys,
    on_filling,
    on_making,
    on_reading,
)
from rushlight.dispatch.keys import DispatchKey
from rushlight.dispatch.trace import LaunchTracer

_PLANNING = 1 << DispatchKey.Planning
_held = threading.local()


@cython.final
@cython.cclass
class LaunchForwarder(LaunchObserver):
    """Tells a function of each launch of one thread."""

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def on_launch(self, launch: cython.pointer(Launch)) -> cython.int:
        sink = getattr(_held, "sink", None)
        if sink is None:
            return 0
        data: cython.pp_char = launch.data
        numbers: cython.p_char = launch.numbers
        n_bytes: cython.int = launch.n_bytes
        if launch.fn == cython.NULL:
            sink.recorded += launch.total
            return 0
        positions: list = []
        inside: list = []
        i: cython.int
        for i in range(launch.n_data):
            own: cython.bint = n_bytes > 0 and numbers <= data[i] < numbers + n_bytes
            inside.append(own)
            positions.append(
                data[i] - numbers if own else cython.cast(uintptr_t, data[i])
            )
        sink.launched(
            cython.cast(uintptr_t, launch.fn),
            positions,
            inside,
            [launch.ints[i] for i in range(launch.n_ints)],
            launch.total,
            launch.grain,
            PyBytes_FromStringAndSize(numbers, n_bytes) if n_bytes else b"",
        )
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def on_operand(self, operand: object) -> cython.int:
        sink = getattr(_held, "sink", None)
        if sink is not None and operand is not None:
            sink.known(operand)
        return 0


def _made(tensor):
    sink = getattr(_held, "sink", None)
    if sink is not None:
        sink.made(tensor)


def _filled(tensor):
    sink = getattr(_held, "sink", None)
    if sink is not None:
        sink.filled(tensor)


def _read(tensor):
    sink = getattr(_held, "sink", None)
    if sink is not None:
        sink.read(tensor)


on_making(_made)
on_filling(_filled)
on_reading(_read)


def count_launches() -> int:
    """How many launches there were while somebody listened."""
    return launched()


def place_of(tensor: Tensor) -> tuple:
    """Where a tensor's memory is: its address, its bytes, and the tensor's own start."""
    return (
        cython.cast(uintptr_t, tensor.storage.data),
        tensor.storage.n_bytes,
        cython.cast(uintptr_t, tensor.pointer()),
    )


class listening:
    """A block all of whose launches are told to an object.

    Args:
        sink: its ``launched``, ``known``, ``made``, ``filled`` and ``read`` are called.
    """

    def __init__(self, sink):
        self.sink = sink

    def __enter__(self):
        self.before = included_keys()
        set_observer(LaunchForwarder())
        watch(OBSERVE_ALL)
        include_keys(_PLANNING)
        _held.sink = self.sink
        return self.sink

    def __exit__(self, *raised):
        _held.sink = None
        include_keys(self.before, True)
        watch(-OBSERVE_ALL)
        set_observer(LaunchTracer())
