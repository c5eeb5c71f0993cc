"""Kernels written in Python, called with what a call's slots hold."""

from __future__ import annotations

import importlib

import cython
from cython.cimports.libc.stdint import uint64_t
from cython.cimports.rushlight.core._python import (
    PyObject_Vectorcall,
    p_object,
    pp_object,
)
from cython.cimports.rushlight.core.device import Device
from cython.cimports.rushlight.core.keys import (
    BACKEND_BITS,
    KEY_ADINPLACEORVIEW,
    KEY_AUTOGRAD,
    KEY_COMPOSING,
    KEY_DECOMPOSE,
    KEY_META,
)
from cython.cimports.rushlight.core.state import ThreadState, state
from cython.cimports.rushlight.core.tensor import Tensor, new_empty
from cython.cimports.rushlight.dispatch.dispatcher import N_KEYS, Kernel, Operator

from rushlight.dispatch.declared import says
from rushlight.dispatch.dispatcher import serve_all
from rushlight.dispatch.keys import KeySet
from rushlight.dispatch.operands import of_two_devices

_AUTOGRAD_BITS = cython.declare(
    uint64_t,
    (cython.cast(uint64_t, 1) << KEY_AUTOGRAD)
    | (cython.cast(uint64_t, 1) << KEY_ADINPLACEORVIEW),
)
_DEVICES = cython.declare(uint64_t, 15)  # the backends
_META = cython.declare(Device, Device("meta"))


@cython.cclass
class PythonKernel(Kernel):
    """Any callable, called with all the schema's arguments by position."""

    def __init__(self, function, with_keyset=False):
        self.function = function
        self.with_keyset = with_keyset

    @cython.cfunc
    def run(self, op: Operator, slots: pp_object, keys: uint64_t) -> object:
        st: cython.pointer(ThreadState)
        before: uint64_t
        if keys == 0 or keys > BACKEND_BITS:
            return call_function(self, op, slots, keys)
        devices: uint64_t = keys & _DEVICES
        if devices & (devices - 1) and refuse_devices(op, slots):
            return run_without_elements(self, op, slots, keys)
        # a backend's function runs below autograd, whichever way the call came
        st = state()
        before = st.excluded
        st.excluded = before | _AUTOGRAD_BITS
        try:
            return call_function(self, op, slots, keys)
        finally:
            st.excluded = before


@cython.cfunc
@cython.exceptval(-1, check=False)
def refuse_devices(op: Operator, slots: pp_object) -> cython.bint:
    """Refuses tensors of two devices; one number of the host's goes with any.

    Returns:
        Whether the operator takes all of them as tensors without elements.
    """
    tensors: list = []
    i: cython.int
    if says(op, "mixed_devices"):
        return False
    for i in range(op.n_args):
        item = cython.cast(object, slots[i])
        for t in item if isinstance(item, (list, tuple)) else (item,):
            if isinstance(t, Tensor):
                tensors.append(t)
    first: Tensor = tensors[0]
    second: Tensor = None
    for t in tensors:
        one: Tensor = t
        if one.storage.device.kind == first.storage.device.kind:
            continue
        if one.ndim_ == 0 and one.storage.device.on_host:
            continue
        if first.ndim_ == 0 and first.storage.device.on_host:
            first = one
            continue
        second = one
        break
    if second is None:
        return False
    if not first.storage.device.has_memory and says(op, "shapes_alone"):
        return True
    lines = [f"\n  {t.dtype.name}{list(t.shape)} on {t.device}" for t in tensors]
    raise RuntimeError(
        f"{of_two_devices(first.storage.device, second.storage.device, op.name)}"
        f"{''.join(lines)}\n  remedy: move one of them with .to(device)"
    )


@cython.cfunc
def run_without_elements(
    kernel: PythonKernel, op: Operator, slots: pp_object, keys: uint64_t
) -> object:
    """Runs the kernel for tensors without elements in place of all that have some."""
    given: p_object[24]
    held: list = []
    i: cython.int
    for i in range(op.n_args):
        item = without_elements(cython.cast(object, slots[i]))
        held.append(item)
        given[i] = cython.cast(p_object, item)
    meta: uint64_t = keys & ~(_DEVICES & ~(cython.cast(uint64_t, 1) << KEY_META))
    return op.run(given, meta)


@cython.cfunc
def without_elements(item: object) -> object:
    """An argument whose tensors have no elements."""
    t: Tensor
    if isinstance(item, Tensor):
        t = item
        if not t.storage.device.has_memory:
            return item
        return new_empty(t.ndim_, t.sizes, t.strides, t.dtype_, _META)
    if isinstance(item, list):
        return [without_elements(one) for one in item]
    return item


@cython.cfunc
def call_function(
    kernel: PythonKernel, op: Operator, slots: pp_object, keys: uint64_t
) -> object:
    args: p_object[26]
    i: cython.int
    n: cython.int = op.n_args
    args[0] = cython.NULL
    if kernel.with_keyset:
        keyset = KeySet(keys)
        args[1] = cython.cast(p_object, keyset)
        for i in range(n):
            args[2 + i] = slots[i]
        return PyObject_Vectorcall(
            cython.cast(p_object, kernel.function),
            cython.address(args[1]),
            n + 1,
            cython.NULL,
        )
    for i in range(n):
        args[1 + i] = slots[i]
    return PyObject_Vectorcall(
        cython.cast(p_object, kernel.function), cython.address(args[1]), n, cython.NULL
    )


@cython.no_gc  # a module's function stays as long as the module
@cython.final
@cython.cclass
class DecompositionKernel(Kernel):
    """What PyTorch takes an operator apart into, where Python listens to operators.

    A function that gives ``NotImplemented`` leaves the operator whole. So do inference
    mode and blocks below autograd: PyTorch takes operators apart where it records them.
    """

    module = cython.declare(str, visibility="readonly")
    attribute = cython.declare(str, visibility="readonly")
    loaded = cython.declare(PythonKernel)

    composing = cython.declare(cython.bint)

    def __init__(self, module, attribute, composing=True):
        self.module = module
        self.attribute = attribute
        self.composing = composing  # not where the parts are a program's own calls

    @cython.cfunc
    def run(self, op: Operator, slots: pp_object, keys: uint64_t) -> object:
        one: uint64_t = 1
        rest: uint64_t = keys & ~(one << KEY_DECOMPOSE)
        st: cython.pointer(ThreadState) = state()
        if st.inference_mode or (st.excluded >> KEY_AUTOGRAD) & 1:
            return op.run(slots, rest)
        if self.loaded is None:
            module = importlib.import_module(self.module)
            self.loaded = PythonKernel(getattr(module, self.attribute))
        before: uint64_t = st.included & (one << KEY_COMPOSING)
        if self.composing:
            st.included |= one << KEY_COMPOSING
        try:
            answer = call_function(self.loaded, op, slots, keys)
        finally:
            st.included = (st.included & ~(one << KEY_COMPOSING)) | before
        return op.run(slots, rest) if answer is NotImplemented else answer


@cython.no_gc  # a module's function stays as long as the module
@cython.final
@cython.cclass
class LazyKernel(Kernel):
    """A kernel named by module and attribute, imported at its first call."""

    module = cython.declare(str, visibility="readonly")
    attribute = cython.declare(str, visibility="readonly")
    make = cython.declare(object)
    loaded = cython.declare(Kernel)

    def __init__(self, module, attribute, make=None):
        self.module = module
        self.attribute = attribute
        self.make = make

    def load(self, op):
        """The kernel behind the name."""
        if self.loaded is None:
            found = getattr(importlib.import_module(self.module), self.attribute)
            made = PythonKernel(found) if self.make is None else self.make(found, op)
            # another thread may have come first, and be running its kernel by now
            if self.loaded is None:
                self.loaded = made
        return self.loaded

    @cython.cfunc
    def run(self, op: Operator, slots: pp_object, keys: uint64_t) -> object:
        if self.loaded is None:
            self.load(op)
        kernel: Kernel = self.loaded
        i: cython.int
        for i in range(N_KEYS):  # from now on without this step; it keeps the kernel
            if op.table[i] == cython.cast(p_object, self):
                op.table[i] = cython.cast(p_object, kernel)
        return kernel.run(op, slots, keys)


@cython.final
@cython.cclass
class FallbackKernel(Kernel):
    """A function for every operator of a key: ``function(op, *args)``.

    With the keys of the call before all that, where it asks for them.
    """

    function = cython.declare(object)
    with_keyset = cython.declare(cython.bint)

    def __init__(self, function, with_keyset=False):
        self.function = function
        self.with_keyset = with_keyset

    @cython.cfunc
    def run(self, op: Operator, slots: pp_object, keys: uint64_t) -> object:
        args: p_object[27]
        i: cython.int
        count: cython.int = 1
        keyset: object
        args[0] = cython.NULL
        if self.with_keyset:
            keyset = KeySet(keys)
            args[count] = cython.cast(p_object, keyset)
            count += 1
        args[count] = cython.cast(p_object, op)
        count += 1
        for i in range(op.n_args):  # the caller's own: nobody counts them twice
            args[count + i] = slots[i]
        return PyObject_Vectorcall(
            cython.cast(p_object, self.function),
            cython.address(args[1]),
            count - 1 + op.n_args,
            cython.NULL,
        )


def set_fallback(key, function, with_keyset=False):
    """Serve every operator without an entry for ``key``; None takes it back.

    Args:
        key: the dispatch key.
        function: ``function(op, *args)``, or a `Kernel`.
        with_keyset: ``function(keys, op, *args)``.
    """
    if function is not None and not isinstance(function, Kernel):
        function = FallbackKernel(function, with_keyset)
    serve_all(key, function)
