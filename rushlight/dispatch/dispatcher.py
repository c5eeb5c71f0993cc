"""Who runs a call: operators as data, one compiled routine that calls them all."""

from __future__ import annotations

import importlib

import cython
from cython.cimports.cpython.object import PyObject
from cython.cimports.libc.stdint import uint64_t
from cython.cimports.rushlight.core._python import (
    PyObject_Vectorcall,
    PyTypeObject,
    PyVectorcall_Call,
    __builtin_clzll,
)
from cython.cimports.rushlight.core.device import Device, default_device
from cython.cimports.rushlight.core.keys import (
    KEY_ADINPLACEORVIEW,
    KEY_AUTOGRAD,
    KEY_PRIVATEUSE1,
)
from cython.cimports.rushlight.core.overlap import (
    refuse_internal_overlap,
    repeats_elements,
)
from cython.cimports.rushlight.core.state import ThreadState, state
from cython.cimports.rushlight.core.storage import any_shrunk
from cython.cimports.rushlight.core.tensor import Tensor, check_allocated
from cython.cimports.rushlight.dispatch.outputs import (
    ANY,
    CAST,
    EXACT,
    check_output_type,
    fit_like,
    refuse_gradient,
    refuse_output,
    refuse_reading,
    refuse_shared,
    write_folded,
)
from cython.cimports.rushlight.dispatch.signature import (
    Bound,
    Signature,
    keyword_dict,
    release,
)

from rushlight.core.state import pop_mode, push_mode, silenced_overrides
from rushlight.dispatch.keys import DispatchKey, KeySet

_RECORDER = cython.declare(Recorder, None)
_BACKEND_BITS = cython.declare(uint64_t, 15)
_AUTOGRAD_BITS = cython.declare(
    uint64_t,
    (cython.cast(uint64_t, 1) << KEY_AUTOGRAD)
    | (cython.cast(uint64_t, 1) << KEY_ADINPLACEORVIEW),
)
_TWO_DEVICES = cython.declare(uint64_t, 5)  # CPU and Meta at once
_PLAIN_TYPES = cython.declare(dict, {})  # type -> overrides nothing
_FALLBACKS = cython.declare(dict, {})  # key number -> Kernel for every operator
_EVERY_OPERATOR = cython.declare(list, [])
_COPY = cython.declare(Operator, None)
_NON_BLOCKING = cython.declare(object, False)


@cython.cclass
class Kernel:
    """One way of running an operator."""

    @cython.cfunc
    def run(
        self,
        op: Operator,
        slots: cython.pointer(cython.pointer(PyObject)),
        keys: uint64_t,
    ) -> object:
        raise NotImplementedError(f"{type(self).__name__} cannot run")


@cython.cclass
class PythonKernel(Kernel):
    """Any callable, called with all the schema's arguments by position."""

    def __init__(self, function, with_keyset=False):
        self.function = function
        self.with_keyset = with_keyset

    @cython.cfunc
    def run(
        self,
        op: Operator,
        slots: cython.pointer(cython.pointer(PyObject)),
        keys: uint64_t,
    ) -> object:
        st: cython.pointer(ThreadState)
        before: uint64_t
        if keys == 0 or keys > _BACKEND_BITS:
            return call_function(self, op, slots, keys)
        if keys & _TWO_DEVICES == _TWO_DEVICES:
            refuse_devices(op, slots)
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
def refuse_devices(
    op: Operator, slots: cython.pointer(cython.pointer(PyObject))
) -> cython.int:
    """Refuses tensors without data beside a first one that has them."""
    tensors: list = []
    i: cython.int
    for i in range(op.n_args):
        item = cython.cast(object, slots[i])
        for t in item if isinstance(item, (list, tuple)) else (item,):
            if isinstance(t, Tensor):
                tensors.append(t)
    if op.name == "copy_" or cython.cast(Tensor, tensors[0]).storage.device.kind == 2:
        return 0  # copying has words of its own
    lines = [f"\n  {t.dtype.name}{list(t.shape)} on {t.device}" for t in tensors]
    raise RuntimeError(
        f"{op.name}: Expected all tensors to be on the same device, but found at least "
        f"two devices, cpu and meta!{''.join(lines)}\n"
        "  remedy: move one of them with .to(device)"
    )


@cython.cfunc
def call_function(
    kernel: PythonKernel,
    op: Operator,
    slots: cython.pointer(cython.pointer(PyObject)),
    keys: uint64_t,
) -> object:
    args: cython.pointer(PyObject)[26]
    i: cython.int
    n: cython.int = op.n_args
    args[0] = cython.NULL
    if kernel.with_keyset:
        keyset = KeySet(keys)
        args[1] = cython.cast(cython.pointer(PyObject), keyset)
        for i in range(n):
            args[2 + i] = slots[i]
        return PyObject_Vectorcall(
            cython.cast(cython.pointer(PyObject), kernel.function),
            cython.address(args[1]),
            n + 1,
            cython.NULL,
        )
    for i in range(n):
        args[1 + i] = slots[i]
    return PyObject_Vectorcall(
        cython.cast(cython.pointer(PyObject), kernel.function),
        cython.address(args[1]),
        n,
        cython.NULL,
    )


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
    def run(
        self,
        op: Operator,
        slots: cython.pointer(cython.pointer(PyObject)),
        keys: uint64_t,
    ) -> object:
        if self.loaded is None:
            self.load(op)
        kernel: Kernel = self.loaded
        return kernel.run(op, slots, keys)


@cython.final
@cython.cclass
class FallbackKernel(Kernel):
    """A function for every operator of a key: ``function(op, *args)``."""

    function = cython.declare(object)

    def __init__(self, function):
        self.function = function

    @cython.cfunc
    def run(
        self,
        op: Operator,
        slots: cython.pointer(cython.pointer(PyObject)),
        keys: uint64_t,
    ) -> object:
        args = [cython.cast(object, slots[i]) for i in range(op.n_args)]
        return self.function(op, *args)


@cython.final
@cython.cclass
class DerivedKernel(Kernel):
    """In-place and ``out=`` forms of operators that only compute fresh results."""

    @cython.cfunc
    def run(
        self,
        op: Operator,
        slots: cython.pointer(cython.pointer(PyObject)),
        keys: uint64_t,
    ) -> object:
        source: Operator = op.functional
        written: Tensor = None
        if op.form == INPLACE:
            written = cython.cast(Tensor, cython.cast(object, slots[0]))
            if op.out_overlap & 5:
                least: cython.int = 2 if op.out_overlap & 4 else 1
                refuse_shared(slots, 1, op.n_args, written, least)
        if not keys and op.form == INPLACE and wants_graph(op, slots):
            # What the composite's parts save must not be what is overwritten.
            copy = written.clone()
            slots[0] = cython.cast(cython.pointer(PyObject), copy)
            try:
                result = source.call(slots)
            finally:
                slots[0] = cython.cast(cython.pointer(PyObject), written)
            return overwrite(written, result, op)
        target: object = None
        if op.form == OUT:
            target = cython.cast(object, slots[op.n_args - 1])
            take_type(op, slots, target)
            if op.out_overlap & 7:
                refuse_reading(slots, op.n_args - 1, target, op.out_overlap)
        # At the composite level (keys == 0) the functional form dispatches anew.
        result = source.run(slots, keys) if keys else source.call(slots)
        if op.form == INPLACE:
            return overwrite(written, result, op)
        if isinstance(result, (tuple, list)):
            if len(target) != len(result):
                raise TypeError(
                    f"{op.base_name()}(): argument 'out' must be {len(result)} tensors, "
                    f"not {len(target)}"
                )
            filled = [fill_out(t, r, op) for t, r in zip(target, result)]
            return tuple(filled) if len(op.returns) > 1 else None
        return fill_out(target, result, op)


@cython.cfunc
@cython.exceptval(-1, check=False)
def take_type(
    op: Operator, slots: cython.pointer(cython.pointer(PyObject)), target: object
) -> cython.int:
    """An output's type stands in for the ``dtype=`` that a reduction was not given."""
    if op.out_rule == EXACT or not isinstance(target, Tensor):
        return 0
    at: cython.int = op.signature.find("dtype")
    if at < 0:
        return 0
    t: Tensor = target
    given = cython.cast(object, slots[at])
    if given is None:
        if op.out_rule == ANY or t.dtype_.category >= 2:
            slots[at] = cython.cast(cython.pointer(PyObject), t.dtype_)
    elif given is not t.dtype_:
        check_output_type(EXACT, given, t, op.base_name())
    return 0


@cython.cfunc
@cython.exceptval(check=False)
def wants_graph(
    op: Operator, slots: cython.pointer(cython.pointer(PyObject))
) -> cython.bint:
    """Whether gradients will flow through a call."""
    i: cython.int
    if not state().grad_mode:
        return False
    for i in range(op.n_args):
        value = cython.cast(object, slots[i])
        if isinstance(value, Tensor) and cython.cast(Tensor, value).wants_grad:
            return True
    return False


@cython.cfunc
def overwrite(target: Tensor, result: Tensor, op: Operator) -> object:
    if result.shape != target.shape and op.entry and "grows" in op.entry[12]:
        target.resize_(result.shape)
    if result.shape != target.shape:
        refuse_output(op.name, target, result)
    check_output_type(CAST, result.dtype_, target, op.base_name())
    if op.out_overlap & 8 and repeats_elements(target):
        return write_folded(target, result, True)
    refuse_internal_overlap(target)
    return copy_into(target, result)


@cython.cfunc
def fill_out(target: object, result: Tensor, op: Operator) -> object:
    """Move a fresh result to where the caller wants it."""
    written: Tensor
    if not isinstance(target, Tensor):
        refuse_output(op.base_name(), target, result)
    written = target
    if result.dtype_.category >= 2 and state().grad_mode:
        if (written.wants_grad and not op.out_leaf) or (
            result.wants_grad and not op.out_detached
        ):
            refuse_gradient(op.base_name())
    check_output_type(op.out_rule, result.dtype_, written, op.base_name())
    if op.out_overlap & 8 and repeats_elements(written):
        return write_folded(written, result.detach(), False)
    refuse_internal_overlap(written)
    if op.out_counted and result.numel_ == written.numel_:
        result = result.reshape(written.shape)
    fit_like(written, result, op.out_quiet, op.out_plain)
    if result.wants_grad and not op.out_detached:
        result = result.detach()
    return copy_into(written, result)


@cython.cfunc
def copy_into(target: Tensor, source: object) -> object:
    """``target.copy_(source)``, whatever backend they are on."""
    slots: cython.pointer(PyObject)[4]
    slots[0] = cython.cast(cython.pointer(PyObject), target)
    slots[1] = cython.cast(cython.pointer(PyObject), source)
    # a bare False would be a C integer, and the pointer NULL
    slots[2] = cython.cast(cython.pointer(PyObject), _NON_BLOCKING)
    _COPY.call(slots)
    return target


def set_copy_operator(op: Operator):
    """Name the operator that moves values between tensors."""
    global _COPY
    _COPY = op


@cython.cclass
class Derivative:
    """What a recorded call keeps, and the formula that reverses it."""

    def __init__(self, module, function, saved, groups, flags, outputs, formula=None):
        i: cython.int
        self.module = module
        self.function = function
        self.formula = formula
        self.saved = tuple(saved)
        self.groups = tuple(groups)
        self.outputs = tuple(outputs)
        self.multi = bool(flags & 1)
        self.saves_self = bool(flags & 2)
        self.saves_result = bool(flags & 4)
        self.n_saved = len(saved)
        self.n_groups = len(groups)
        for i in range(self.n_saved):
            what, index, mask = saved[i]
            self.what[i] = what
            self.index[i] = index
            self.mask[i] = mask
        self.has_lists = False
        for i in range(self.n_groups):
            argument, is_list = groups[i]
            self.group_arg[i] = argument
            self.group_list[i] = is_list
            self.has_lists = self.has_lists or is_list

    @cython.cfunc
    def load(self) -> object:
        if self.formula is None and self.function is None:
            self.formula = _not_implemented
        elif self.formula is None:
            module = importlib.import_module(self.module)
            self.formula = getattr(module, self.function)
        return self.formula


def _not_implemented(*args):
    raise NotImplementedError("derivative is not implemented for this operator")


@cython.cclass
class Recorder:
    """Where autograd plugs in."""

    @cython.cfunc
    def record(
        self,
        op: Operator,
        slots: cython.pointer(cython.pointer(PyObject)),
        keys: uint64_t,
    ) -> object:
        raise NotImplementedError("no recorder")

    @cython.cfunc
    def keep_books(
        self,
        op: Operator,
        slots: cython.pointer(cython.pointer(PyObject)),
        keys: uint64_t,
    ) -> object:
        raise NotImplementedError("no recorder")


@cython.cfunc
def set_recorder(recorder: Recorder) -> cython.void:
    global _RECORDER
    _RECORDER = recorder


@cython.cclass
class Operator:
    """One overload of an operator: schema, dispatch table, derivative.

    >>> import rushlight as rl
    >>> op = rl.ops.aten.add.Tensor
    >>> op(rl.ones(2), 1.0)
    tensor([2., 2.])
    """

    def __init__(
        self,
        namespace,
        name,
        rows,
        returns,
        *,
        form=0,
        derivative=None,
        functional=None,
        tags=(),
        entry=(),
        is_view=False,
        node_name=None,
    ):
        i: cython.int
        self.vectorcall = cython.cast(cython.p_void, operator_vectorcall)
        self.namespace = namespace
        self.name = name
        self.signature = Signature(name, rows)
        self.n_args = len(rows)
        self.form = form
        self.derivative = derivative
        self.functional = functional
        self.returns = tuple(returns)
        self.entry = entry
        self.kernels = {}
        self.fallthroughs = set()
        self.is_view = is_view
        self.view_or_copy = "view_or_copy" in tags
        self.multi_view = is_view and bool(returns) and returns[0][0] == 2
        self.node_name = node_name or name_of_node(name)
        self.device_arg = -1
        self.n_tensors = 0
        for i in range(self.n_args):
            self.table[i] = cython.NULL
            if self.signature.kinds[i] <= 4:
                self.tensor_args[self.n_tensors] = i
                self.n_tensors += 1
            if rows[i][0] == "device":
                self.device_arg = i
        for i in range(N_KEYS):
            self.table[i] = cython.NULL
        _EVERY_OPERATOR.append(self)
        self.refresh()

    def refresh(self):
        """Recompute which keys the operator answers to."""
        one: uint64_t = 1
        i: cython.int
        self.handled = 0
        for i in range(N_KEYS):
            self.table[i] = cython.NULL
            kernel = self.kernels.get(i)
            if kernel is None and self.composite is None:
                kernel = _FALLBACKS.get(i)
            if kernel is not None and i not in self.fallthroughs:
                self.table[i] = cython.cast(cython.pointer(PyObject), kernel)
                self.handled |= one << i
        if self.composite is None:
            if self.derivative is not None or self.form == OUT:
                self.handled |= one << KEY_AUTOGRAD
            if self.is_view or self.view_or_copy or self.form != FUNCTIONAL:
                self.handled |= (one << KEY_ADINPLACEORVIEW) | (one << KEY_AUTOGRAD)
        for key in self.fallthroughs:
            self.handled &= ~(one << cython.cast(cython.int, key))

    def set_kernel(self, key, kernel):
        """Register (or with None remove) what runs at a key."""
        if kernel is None:
            self.kernels.pop(int(key), None)
        else:
            self.kernels[int(key)] = kernel
        self.refresh()

    def set_composite(self, kernel):
        """Register a decomposition that serves every key."""
        self.composite = kernel
        self.refresh()

    def set_fallthrough(self, key):
        """Let calls pass a key as if it were not there."""
        self.fallthroughs.add(int(key))
        self.refresh()

    def clear_fallthrough(self, key):
        """Take back ``set_fallthrough``."""
        self.fallthroughs.discard(int(key))
        self.refresh()

    def set_derivative(self, derivative):
        """Make the operator differentiable."""
        self.derivative = derivative
        self.refresh()

    def set_forms(self, inplace, out):
        """Link the in-place and ``out=`` forms derived from this operator."""
        self.inplace = inplace
        self.out = out

    def set_out_rule(self, rule, tags):
        """Which types ``out=`` may have, and how it differs from what is usual."""
        self.out_rule = rule
        self.out_detached = "out_detached" in tags
        self.out_quiet = "out_quiet" in tags
        self.out_plain = "out_plain" in tags
        self.out_leaf = "out_leaf" in tags
        self.out_counted = "out_counted" in tags
        self.set_overlap(tags)

    def set_overlap(self, tags):
        """What memory the written tensor may share."""
        self.out_overlap = 2 if "out_alone" in tags else "out_apart" in tags
        self.out_overlap += 4 * ("alone" in tags) + 8 * ("folded" in tags)

    @cython.cfunc
    def base_name(self) -> str:
        """``add`` for ``add.Tensor``."""
        return self.name.split(".")[0]

    def set_return_type(self, kind):
        """Wrap results of several tensors in a named tuple class."""
        self.return_type = kind

    def has_kernel(self, key):
        """Whether something is registered for the key itself."""
        return int(key) in self.kernels

    def redispatch(self, keyset, *args):
        """Call with the given keys; with those of the arguments where it is None."""
        slots: cython.pointer(PyObject)[24]
        i: cython.int
        if len(args) != self.n_args:
            raise TypeError(
                f"{self.name}: redispatch takes all {self.n_args} arguments, "
                f"not {len(args)}"
            )
        for i in range(self.n_args):
            slots[i] = cython.cast(cython.pointer(PyObject), args[i])
        return self.call(slots) if keyset is None else self.run(slots, keyset.bits)

    @property
    def handled_bits(self):
        """The keys that the operator answers to, as bits."""
        return self.handled

    def __getattr__(self, name):
        if name in ("__name__", "__qualname__"):
            return self.name
        raise AttributeError(f"operators have no attribute '{name}'")

    def __repr__(self):
        return f"<operator '{self.namespace}::{self.name}'>"

    def __reduce__(self):
        return (_find_operator, (self.namespace, self.name))

    @cython.cfunc
    def call(self, slots: cython.pointer(cython.pointer(PyObject))) -> object:
        """Collect the arguments' keys and run what they choose."""
        bits: uint64_t = 0
        one: uint64_t = 1
        wants: cython.bint = False
        exotic: cython.bint
        i: cython.int
        t: Tensor
        st: cython.pointer(ThreadState) = state()
        exotic = st.modes > 0
        if st.elsewhere:
            return self.call_elsewhere(slots, st)
        for i in range(self.n_tensors):
            item = cython.cast(object, slots[self.tensor_args[i]])
            if type(item) is Tensor:
                t = cython.cast(Tensor, item)
                bits |= t.keys
                wants = wants or t.wants_grad or stale(t)
            elif isinstance(item, Tensor):
                t = cython.cast(Tensor, item)
                bits |= t.keys
                wants = wants or t.wants_grad or stale(t)
                exotic = exotic or not is_plain(type(item))
            elif isinstance(item, (list, tuple)):
                for element in item:
                    if element is not None:
                        t = element
                        bits |= t.keys
                        wants = wants or t.wants_grad or stale(t)
                        if type(element) is not Tensor:
                            exotic = exotic or not is_plain(type(element))
        if exotic:
            answer = ask_overrides(self, slots)
            if answer is not NotImplemented:
                return answer
        if self.form == INPLACE and not st.inference_mode:
            refuse_inference_write(cython.cast(object, slots[0]))
        if bits == 0 or self.device_arg >= 0:
            bits = self.factory_bits(slots, bits)
        bits = (bits | st.included) & ~st.excluded
        if self.composite is not None and (bits & self.handled) == 0:
            return self.composite.run(self, slots, 0)
        if not wants or not st.grad_mode:
            # nothing to record: the built-in Autograd handling would only pass on
            if self.table[KEY_AUTOGRAD] == cython.NULL:
                bits &= ~(one << KEY_AUTOGRAD)
        return self.run(slots, bits)

    @cython.cfunc
    @cython.exceptval(0)
    def factory_bits(
        self, slots: cython.pointer(cython.pointer(PyObject)), bits: uint64_t
    ) -> uint64_t:
        """The backend from ``device=`` where there is one."""
        one: uint64_t = 1
        device: object
        if self.device_arg >= 0:
            device = cython.cast(object, slots[self.device_arg])
            if device is not None:
                return (bits & ~cython.cast(uint64_t, 15)) | (
                    one << cython.cast(Device, device).kind
                )
        return bits if bits else one  # the CPU

    @cython.cfunc
    def call_elsewhere(
        self,
        slots: cython.pointer(cython.pointer(PyObject)),
        st: cython.pointer(ThreadState),
    ) -> object:
        """The call under a default device, of which what it calls itself knows nothing."""
        device: object = default_device()
        i: cython.int
        made: cython.bint = self.device_arg >= 0
        for i in range(self.n_tensors):
            if isinstance(cython.cast(object, slots[self.tensor_args[i]]), Tensor):
                made = False  # it follows its argument
        if made and cython.cast(object, slots[self.device_arg]) is None:
            slots[self.device_arg] = cython.cast(cython.pointer(PyObject), device)
        st.elsewhere = False
        try:
            return self.call(slots)
        finally:
            st.elsewhere = True

    @cython.cfunc
    def run(
        self, slots: cython.pointer(cython.pointer(PyObject)), keys: uint64_t
    ) -> object:
        """Hand the call to the highest key that answers."""
        bits: uint64_t = keys & self.handled
        key: cython.int
        if bits == 0:
            if self.composite is not None:
                return self.composite.run(self, slots, 0)
            not_available(self, keys)
        key = 63 - __builtin_clzll(bits)
        if key <= KEY_PRIVATEUSE1:
            keys &= _BACKEND_BITS
            if any_shrunk and not self.is_view:
                check_arguments(self, slots)
        if self.table[key] != cython.NULL:
            # owned for the call: it may take the entry out of the table
            kernel: Kernel = cython.cast(Kernel, self.table[key])
            return kernel.run(self, slots, keys)
        if key == KEY_AUTOGRAD:
            return _RECORDER.record(self, slots, keys)
        return _RECORDER.keep_books(self, slots, keys)


@cython.cfunc
@cython.exceptval(-1, check=False)
def check_arguments(
    op: Operator, slots: cython.pointer(cython.pointer(PyObject))
) -> cython.int:
    """No element is read or written outside of a storage that was made smaller."""
    i: cython.int
    if op.name.startswith(("resize_", "set_")):
        return 0
    for i in range(op.n_tensors):
        item = cython.cast(object, slots[op.tensor_args[i]])
        if isinstance(item, Tensor):
            check_allocated(item)
        elif isinstance(item, (list, tuple)):
            for element in item:
                if element is not None:
                    check_allocated(element)
    return 0


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def stale(t: Tensor) -> cython.bint:
    """A view that needs no gradient yet, of a base that has come to need one."""
    return t.base is not None and t.base.wants_grad


@cython.cfunc
def refuse_inference_write(target: object):
    if isinstance(target, Tensor) and cython.cast(Tensor, target).inference:
        raise RuntimeError(
            "Inplace update to inference tensor outside InferenceMode is not allowed. "
            "You can make a clone to get a normal tensor before doing inplace update."
        )


@cython.cfunc
def name_of_node(name: str) -> str:
    """``log_softmax.int`` -> ``LogSoftmax``."""
    base = name.split(".")[0]
    return "".join([part[:1].upper() + part[1:] for part in base.split("_") if part])


@cython.cfunc
def not_available(op: Operator, keys: uint64_t):
    present = [key for key in KeySet(keys) if key < DispatchKey.BackendSelect]
    backend = present[0].name if present else "no backend"
    known = [DispatchKey(key).name for key in sorted(op.kernels)]
    if backend == "Meta":
        hint = "give it a function for shapes with impl(..., 'Meta')"
    else:
        hint = f"register one with Library.impl('{op.name}', function, '{backend}')"
    raise NotImplementedError(
        f"Could not run '{op.namespace}::{op.name}' with arguments from the "
        f"'{backend}' backend.\n  '{op.namespace}::{op.name}' is available for: "
        f"{', '.join(known) or 'nothing'}\n  remedy: {hint}"
    )


# -- overrides: __torch_function__ on subclasses, function modes ---------------------


@cython.cfunc
@cython.exceptval(check=False)
def is_plain(kind: type) -> cython.bint:
    """Whether a subclass of Tensor leaves calls alone (no ``__torch_function__``)."""
    known = _PLAIN_TYPES.get(kind)
    if known is None:
        hook = getattr(kind, "__torch_function__", None)
        known = hook is None or getattr(hook, "passes_by", False)
        _PLAIN_TYPES[kind] = known
    return known


@cython.cfunc
def ask_overrides(
    op: Operator, slots: cython.pointer(cython.pointer(PyObject))
) -> object:
    """What the modes, then the arguments' types, say; NotImplemented to go on."""
    if silenced_overrides() > 1:
        return NotImplemented
    args, keywords = given_arguments(op, slots)
    kinds = []
    for arg in () if silenced_overrides() else flatten((*args, *keywords.values())):
        if (
            isinstance(arg, Tensor)
            and not is_plain(type(arg))
            and type(arg) not in kinds
        ):
            kinds.append(type(arg))
    packet = _PACKETS.get((op.namespace, op.name.split(".")[0]), op)
    st: cython.pointer(ThreadState) = state()
    if st.modes:
        mode = pop_mode()
        try:
            answer = mode.__torch_function__(packet, tuple(kinds), args, keywords)
        finally:
            push_mode(mode)
        if answer is not NotImplemented:
            return answer
    for kind in kinds:
        answer = kind.__torch_function__(packet, tuple(kinds), args, keywords)
        if answer is not NotImplemented:
            return answer
    if kinds:
        raise TypeError(
            f"no implementation found for '{op.namespace}::{op.name}' on types that "
            f"implement __torch_function__: {kinds}"
        )
    return NotImplemented


@cython.cfunc
def given_arguments(
    op: Operator, slots: cython.pointer(cython.pointer(PyObject))
) -> tuple:
    """What a call was given, as one would write it: defaults are left out."""
    args: list = []
    keywords: dict = {}
    defaults: tuple = op.signature.defaults
    i: cython.int
    for i in range(op.n_args):
        value = cython.cast(object, slots[i])
        if not op.signature.rows[i][3]:
            args.append(value)
        elif value is not defaults[i]:
            keywords[op.signature.rows[i][0]] = value
    while args and args[len(args) - 1] is defaults[len(args) - 1]:
        args.pop()
    return tuple(args), keywords


@cython.cfunc
def flatten(args: tuple) -> list:
    flat = []
    for arg in args:
        if isinstance(arg, (list, tuple)):
            flat.extend(arg)
        else:
            flat.append(arg)
    return flat


_PACKETS = cython.declare(dict, {})


def _find_operator(namespace, name):
    for op in _EVERY_OPERATOR:
        if op.namespace == namespace and op.name == name:
            return op
    raise RuntimeError(f"there is no operator '{namespace}::{name}'")


def find_packet(namespace, name):
    """The packet of a name."""
    return _PACKETS[(namespace, name)]


def every_operator():
    """All operators, in the order in which they were defined."""
    return _EVERY_OPERATOR


def packets():
    """All packets, by (namespace, name)."""
    return _PACKETS


def set_fallback(key, function):
    """Serve every operator without an entry for ``key``; None takes it back.

    Args:
        key: the dispatch key.
        function: ``function(op, *args)``, or a `Kernel`.
    """
    if function is None:
        _FALLBACKS.pop(int(key), None)
    elif isinstance(function, Kernel):
        _FALLBACKS[int(key)] = function
    else:
        _FALLBACKS[int(key)] = FallbackKernel(function)
    for op in _EVERY_OPERATOR:
        op.refresh()


def forget(op):
    """Take an operator out of the registry."""
    _EVERY_OPERATOR.remove(op)


def forget_packet(namespace, name):
    """Take a name out of the registry."""
    _PACKETS.pop((namespace, name), None)


# -- vectorcall entry points -----------------------------------------------------------


@cython.cfunc
def operator_vectorcall(
    self: cython.pointer(PyObject),
    args: cython.pointer(cython.pointer(PyObject)),
    nargsf: cython.size_t,
    kwnames: cython.pointer(PyObject),
) -> object:
    op: Operator = cython.cast(Operator, self)
    bound: Bound
    n: cython.Py_ssize_t = (nargsf << 1) >> 1
    code: cython.int
    bound.n_made = bound.strict = 0
    try:
        code = op.signature.bind(args, n, kwnames, cython.address(bound))
        if code:
            raise_mismatch(op.name, [op], args, n, kwnames, code)
        return op.call(bound.slots)
    finally:
        release(cython.address(bound))


@cython.cfunc
def raise_mismatch(
    name: str,
    overloads: list,
    args: cython.pointer(cython.pointer(PyObject)),
    n: cython.Py_ssize_t,
    kwnames: cython.pointer(PyObject),
    code: cython.int,
):
    """TypeError in PyTorch's words: the one schema's fault, or all the schemas."""
    i: cython.int
    positional = tuple([cython.cast(object, args[i]) for i in range(n)])
    keywords = keyword_dict(args, n, kwnames)
    only: Operator = overloads[0]
    if len(overloads) == 1:
        raise TypeError(only.signature.explain(positional, keywords, code))
    given = [type(value).__name__ for value in positional]
    given += [f"{key}={type(value).__name__}" for key, value in keywords.items()]
    raise TypeError(
        f"{name}() received an invalid combination of arguments - got "
        f"({', '.join(given)}), but expected one of:\n"
        + "\n".join(f" * {schema_line(op)}" for op in overloads)
    )


def schema_line(op: Operator):
    """``(Tensor self, Number other, *, Number alpha=1)``."""
    from rushlight.dispatch.signature import KIND_NAMES

    parts = []
    starred = False
    for name, kind, default, keyword_only, _, _ in op.signature.rows:
        if keyword_only and not starred:
            parts.append("*")
            starred = True
        text = f"{KIND_NAMES[kind]} {name}"
        parts.append(text if default is Ellipsis else f"{text} = {default}")
    return f"({', '.join(parts)})"


@cython.cfunc
@cython.exceptval(check=False)
def enable_vectorcall(
    kind: object, instance: object, field: cython.p_void, flags: cython.ulong
) -> cython.void:
    """Let CPython call instances of a type through a field, without bound methods."""
    body: cython.pointer(PyTypeObject) = cython.cast(
        cython.pointer(PyTypeObject), cython.cast(cython.pointer(PyObject), kind)
    )
    body.tp_flags |= flags
    body.tp_vectorcall_offset = cython.cast(cython.Py_ssize_t, field) - cython.cast(
        cython.Py_ssize_t, cython.cast(cython.p_void, instance)
    )
    body.tp_call = PyVectorcall_Call


def _install_vectorcall():
    probe: Operator = Operator("aten", "_probe", (), ())
    enable_vectorcall(Operator, probe, cython.address(probe.vectorcall), 1 << 11)
    forget(probe)


_install_vectorcall()
