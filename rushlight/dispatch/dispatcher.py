"""Who runs a call: operators as data, one compiled routine that calls them all."""

from __future__ import annotations

import importlib

import cython
from cython.cimports.libc.stdint import uint64_t
from cython.cimports.rushlight.core._python import (
    PyObject_GC_UnTrack,
    __builtin_clzll,
    p_object,
    pp_object,
)
from cython.cimports.rushlight.core.device import (
    N_KINDS,
    Device,
    backend_of,
    default_device,
)
from cython.cimports.rushlight.core.keys import (
    BACKEND_BITS,
    KEY_ABSENT,
    KEY_ADINPLACEORVIEW,
    KEY_AUTOGRAD,
    KEY_BATCHED,
    KEY_COMPOSING,
    KEY_CUDA,
    KEY_DECOMPOSE,
    KEY_FUNCTIONALIZE,
    KEY_PRIVATEUSE1,
    KEY_PYTHON,
)
from cython.cimports.rushlight.core.state import ThreadState, state
from cython.cimports.rushlight.core.storage import fetch, following
from cython.cimports.rushlight.core.tensor import Tensor
from cython.cimports.rushlight.dispatch.signature import Signature
from cython.cimports.rushlight.dispatch.writing import (
    DIRECT_ALWAYS,
    DIRECT_IF_LARGE,
    INTERNAL_OVERLAP,
    INTERNAL_WARNS,
    NO_OUT,
    NO_PARTIAL_OUT,
    NO_VERSION_BUMP,
    NO_WRITTEN,
    WRITES_LARGE,
)

from rushlight.core import naming
from rushlight.dispatch.declared import (
    COMPOSED,
    CONDITIONS,
    LAYOUT,
    NUMBERS,
    OUTPUT,
    OVERLAP,
    OVERLOAD_FORM,
    OVERLOADS,
    TAGS,
)
from rushlight.dispatch.keys import DispatchKey, KeySet
from rushlight.runtime import pinned

_RECORDER = cython.declare(Recorder, None)
# Compositions answer here, too: what records programs, or follows them, sees them whole.
_PRE_DISPATCH = cython.declare(cython.int, int(DispatchKey.PreDispatch))
_RECORDING = cython.declare(cython.int, int(DispatchKey.Recording))
_PROFILING = cython.declare(cython.int, int(DispatchKey.Profiling))
# backends whose memory the host does not read
_NOT_BACKENDS = cython.declare(
    uint64_t,
    (cython.cast(uint64_t, 1) << KEY_CUDA)
    | (cython.cast(uint64_t, 1) << KEY_PRIVATEUSE1),
)
# Words of declarations that concern what is written.
_WRITING = cython.declare(
    dict,
    {
        "no_partial": NO_PARTIAL_OUT,
        "no_out": NO_OUT,
        "none": NO_WRITTEN,
        "internal": INTERNAL_OVERLAP,
        "internal_warns": INTERNAL_WARNS,
        "no_version_bump": NO_VERSION_BUMP,
        "writes_large": WRITES_LARGE,
        "direct": DIRECT_ALWAYS,
    },
)
_FALLBACKS = cython.declare(dict, {})  # key number -> Kernel for every operator
# The same, borrowed: 2,500 operators look at all of it several times while they are made.
_SERVED = cython.declare(p_object[N_KEYS])
_EVERY_OPERATOR = cython.declare(list, [])
_registrations = cython.declare(cython.longlong, 0)
_replacements = cython.declare(cython.longlong, 0)
_PACKETS = cython.declare(dict, {})
_ENTRY = cython.declare(cython.p_void, cython.NULL)  # how CPython calls operators


@cython.cclass
class Kernel:
    """One way of running an operator."""

    @cython.cfunc
    def run(self, op: Operator, slots: pp_object, keys: uint64_t) -> object:
        raise NotImplementedError(f"{type(self).__name__} cannot run")


@cython.cfunc
@cython.exceptval(check=False)
def set_entry(entry: cython.p_void) -> cython.void:
    """Name the C function that CPython calls operators through."""
    global _ENTRY
    _ENTRY = entry


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
    def record(self, op: Operator, slots: pp_object, keys: uint64_t) -> object:
        raise NotImplementedError("no recorder")

    @cython.cfunc
    def keep_books(self, op: Operator, slots: pp_object, keys: uint64_t) -> object:
        raise NotImplementedError("no recorder")


@cython.cfunc
@cython.exceptval(check=False)
def registrations() -> cython.longlong:
    """How often an operator was given, or lost, something that runs."""
    return _registrations


@cython.cfunc
@cython.exceptval(check=False)
def replacements() -> cython.longlong:
    """How often libraries have changed what runs; what was noted before is no more."""
    return _replacements


_BEFORE = cython.declare(list, [])


def before_replacing(function):
    """Has a function be called before a library changes what runs."""
    _BEFORE.append(function)


# Operators with kernels from libraries, and how many; None for those of all operators.
FOREIGN_KERNELS: dict = {}


def count_foreign(op, change):
    """Counts a kernel that a library gave an operator, or with -1 took back."""
    FOREIGN_KERNELS[op] = FOREIGN_KERNELS.get(op, 0) + change
    if not FOREIGN_KERNELS[op]:
        del FOREIGN_KERNELS[op]


def count_replacement():
    """A library is about to change what runs."""
    global _replacements
    for function in _BEFORE:
        function()
    _replacements += 1


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
        self.vectorcall = _ENTRY
        self.namespace = namespace
        self.name = name
        self.signature = Signature(name, rows)
        if "strided_only" in tags:
            self.signature.refuse_layouts()
        self.n_args = len(rows)
        self.form = form
        self.derivative = derivative
        self.functional = functional
        self.returns = tuple(returns)
        self.entry = entry
        self.kernels = {}
        self.by_backend = {}
        self.is_view = is_view
        self.untracked = "untracked" in tags
        self.view_or_copy = "view_or_copy" in tags
        self.scales_second = bool(entry) and "scales_second" in entry[NUMBERS]
        if entry and "as_tensors" in entry[NUMBERS]:
            self.signature.take_numbers()
        self.whole = form != OUT and bool(entry) and "dispatched_whole" in entry[TAGS]
        self.names = names_of(entry, form)
        self.named_by_caller = any(
            what == COMPOSED for row in self.names for what, _ in row[CONDITIONS]
        )
        self.multi_view = is_view and bool(returns) and returns[0][0] == 2
        self.node_name = node_name or name_of_node(name)
        self.device_arg = self.pin_arg = -1
        self.n_tensors = 0
        for i in range(self.n_args):
            if self.signature.kinds[i] <= 4:
                self.tensor_args[self.n_tensors] = i
                self.n_tensors += 1
            if rows[i][0] == "device":
                self.device_arg = i
            elif rows[i][0] == "pin_memory":
                self.pin_arg = i
        _EVERY_OPERATOR.append(self)
        if entry:
            keep_for_good(self)
            signature = self.signature
            keep_for_good((entry, signature.rows, signature.names, signature.defaults))
        self.refresh()

    def refresh(self):
        """Recompute which keys the operator answers to."""
        global _registrations
        _registrations += 1
        one: uint64_t = 1
        i: cython.int
        self.handled = 0
        for i in range(N_KEYS):
            self.table[i] = _SERVED[i]
            if self.composite is not None and i not in (
                _PRE_DISPATCH,
                _RECORDING,
                _PROFILING,
            ):
                if i != KEY_PYTHON or not self.whole:
                    self.table[i] = cython.NULL
        for key, kernel in self.kernels.items():
            self.table[cython.cast(cython.int, key)] = cython.cast(p_object, kernel)
        for i in range(N_KEYS):
            if (self.fallthroughs >> i) & 1:
                self.table[i] = cython.NULL
            elif self.table[i] != cython.NULL:
                self.handled |= one << i
        if self.composite is None:
            if self.derivative is not None or self.form == OUT:
                self.handled |= one << KEY_AUTOGRAD
            if self.is_view or self.view_or_copy or self.form != FUNCTIONAL:
                self.handled |= (one << KEY_ADINPLACEORVIEW) | (one << KEY_AUTOGRAD)
        self.handled &= ~self.fallthroughs
        self.alike, self.backend_keys = self.handled, 0
        for key, _ in self.by_backend:
            self.backend_keys |= one << cython.cast(cython.int, key)
        self.handled |= self.backend_keys

    def set_kernel(self, key, kernel):
        """Register (or with None remove) what runs at a key."""
        if kernel is None:
            self.kernels.pop(int(key), None)
        else:
            self.kernels[int(key)] = kernel
        self.refresh()

    def set_backend_kernel(self, key, backend, kernel):
        """Register (or with None remove) what runs at a key for one backend alone."""
        if kernel is None:
            self.by_backend.pop((int(key), int(backend)), None)
        else:
            self.by_backend[int(key), int(backend)] = kernel
        self.refresh()

    def set_composite(self, kernel):
        """Register a decomposition that serves every key."""
        self.composite = kernel
        self.refresh()

    def set_fallthrough(self, key):
        """Let calls pass a key as if it were not there."""
        self.fallthroughs |= cython.cast(uint64_t, 1) << cython.cast(cython.int, key)
        self.refresh()

    def clear_fallthrough(self, key):
        """Take back ``set_fallthrough``."""
        self.fallthroughs &= ~(cython.cast(uint64_t, 1) << cython.cast(cython.int, key))
        self.refresh()

    def set_derivative(self, derivative):
        """Make the operator differentiable."""
        self.derivative = derivative
        self.refresh()

    def set_forms(self, inplace, out):
        """Link the in-place and ``out=`` forms derived from this operator."""
        self.inplace = inplace
        self.out = out

    def set_out_rule(self, rule, entry):
        """Which types ``out=`` may have, and how it differs from what is usual."""
        words = entry[OUTPUT]
        self.out_rule = rule
        self.out_detached = "detached" in words
        self.out_quiet = "quiet" in words
        self.out_plain = "row_major" in entry[LAYOUT]
        self.out_leaf = "leaf" in words
        self.out_counted = "same_numel" in words
        self.out_late = "after_resize" in entry[OVERLAP]
        self.out_once = "internal_before" in entry[OVERLAP] or not self.out_late
        self.set_overlap(entry)

    def set_overlap(self, entry):
        """What memory the written tensor may share, and who writes to it."""
        self.out_overlap = 0
        for word in entry[OVERLAP]:
            self.out_overlap |= _WRITING.get(word, 0)
        for word in entry[OUTPUT]:
            self.out_overlap |= _WRITING.get(word, 0)
        if self.out_overlap & DIRECT_ALWAYS and "planned" in entry[TAGS]:
            self.out_overlap ^= DIRECT_ALWAYS | DIRECT_IF_LARGE

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
        slots: p_object[24]
        i: cython.int
        if len(args) != self.n_args:
            raise TypeError(
                f"{self.name}: redispatch takes all {self.n_args} arguments, "
                f"not {len(args)}"
            )
        for i in range(self.n_args):
            slots[i] = cython.cast(p_object, args[i])
        return self.call(slots) if keyset is None else self.run(slots, keyset.bits)

    @property
    def handled_bits(self):
        """The keys that the operator answers to, as bits."""
        return self.handled

    def __getattr__(self, name):
        if name == "__name__":
            return self.name if "." in self.name else f"{self.name}.default"
        if name == "__qualname__":
            return f"{self.namespace}::{self.name}"
        if name == "__module__":
            return f"{naming.package}._ops.{self.namespace}"
        if name == "tags":
            from rushlight.dispatch.tags import tags_of

            return tags_of(self)
        raise AttributeError(f"operators have no attribute '{name}'")

    @property
    def full_name(self):
        """``add.Tensor``: the name with the overload's, without the namespace."""
        return self.name

    def __repr__(self):
        base, _, overload = self.name.partition(".")
        return (
            f"<OpOverload(op='{self.namespace}.{base}', "
            f"overload='{overload or 'default'}')>"
        )

    def __str__(self):
        overload = "" if "." in self.name else ".default"
        return f"{self.namespace}.{self.name}{overload}"

    def __reduce__(self):
        return (_find_operator, (self.namespace, self.name))

    @cython.cfunc
    def call(self, slots: pp_object) -> object:
        """Collect the arguments' keys and run what they choose."""
        bits: uint64_t = 0
        one: uint64_t = 1
        wants: cython.bint = False
        i: cython.int
        t: Tensor
        st: cython.pointer(ThreadState) = state()
        if st.factory_device:
            return self.call_by_backend(slots, st)
        for i in range(self.n_tensors):
            item = cython.cast(object, slots[self.tensor_args[i]])
            if isinstance(item, Tensor):
                t = cython.cast(Tensor, item)
                bits |= t.keys
                wants = wants or t.wants_grad or stale(t)
            elif isinstance(item, (list, tuple)):
                for element in item:
                    if element is not None:
                        t = element
                        bits |= t.keys
                        wants = wants or t.wants_grad or stale(t)
        if self.form == OUT and not st.inference_mode:
            refuse_inference_output(cython.cast(object, slots[self.n_args - 1]))
        if self.form == INPLACE:
            if not st.inference_mode:
                refuse_inference_write(cython.cast(object, slots[0]))
            item = cython.cast(object, slots[0])
            if isinstance(item, Tensor):
                # also where functions of ours write: no version says so
                cython.cast(Tensor, item).storage.writes += 1
        if bits == 0 or self.device_arg >= 0:
            if self.pin_arg >= 0 and cython.cast(object, slots[self.pin_arg]) is True:
                return self.call_pinned(slots)
            bits = self.factory_bits(slots, bits)
        bits = (bits | st.included) & ~st.excluded
        if self.composite is not None:
            if self.whole and (bits >> KEY_FUNCTIONALIZE) & 1:
                return cython.cast(Kernel, _SERVED[KEY_BATCHED]).run(self, slots, bits)
            if self.whole and ((wants and st.grad_mode) or (bits >> KEY_BATCHED) & 1):
                # its parts are recorded, or known to a level, and seen
                bits &= ~(one << KEY_PYTHON)
            if (bits & self.handled) == 0:
                return self.compose(slots, bits)
        if not wants or not st.grad_mode:
            # nothing to record: the built-in Autograd handling would only pass on
            if (
                self.table[KEY_AUTOGRAD] == cython.NULL
                and not (self.backend_keys >> KEY_AUTOGRAD) & 1
            ):
                bits &= ~(one << KEY_AUTOGRAD)
        return self.run(slots, bits)

    @cython.cfunc
    @cython.exceptval(0)
    def factory_bits(self, slots: pp_object, bits: uint64_t) -> uint64_t:
        """The backend from ``device=`` where there is one."""
        one: uint64_t = 1
        device: object
        if self.device_arg >= 0:
            device = cython.cast(object, slots[self.device_arg])
            if device is not None:
                if cython.cast(Device, device).kind >= N_KINDS:
                    backend_of(device)  # none: it says so
                return (bits & ~cython.cast(uint64_t, 15)) | (
                    one << cython.cast(Device, device).kind
                )
        return bits if bits else one  # the CPU

    @cython.cfunc
    def call_pinned(self, slots: pp_object) -> object:
        """The call's result in memory that transfers read while the host goes on."""
        unset: object = None
        slots[self.pin_arg] = cython.cast(p_object, unset)
        return pinned(self.call(slots))

    @cython.cfunc
    def call_by_backend(
        self, slots: pp_object, st: cython.pointer(ThreadState)
    ) -> object:
        """The call under a default device, of which what it calls itself knows nothing."""
        device: object = default_device()
        i: cython.int
        made: cython.bint = self.device_arg >= 0
        for i in range(self.n_tensors):
            if isinstance(cython.cast(object, slots[self.tensor_args[i]]), Tensor):
                made = False  # it follows its argument
        if made and cython.cast(object, slots[self.device_arg]) is None:
            slots[self.device_arg] = cython.cast(p_object, device)
        st.factory_device = False
        try:
            return self.call(slots)
        finally:
            st.factory_device = True

    @cython.cfunc
    def run(self, slots: pp_object, keys: uint64_t) -> object:
        """Hand the call to the highest key that answers."""
        bits: uint64_t = keys & self.handled
        key: cython.int
        if bits == 0:
            if self.composite is not None:
                return self.compose(slots, keys)
            not_available(self, keys)
        key = 63 - __builtin_clzll(bits)
        if (self.backend_keys >> key) & 1:
            return self.run_converted(slots, keys, key)
        if key <= KEY_PRIVATEUSE1:
            if keys & _NOT_BACKENDS and not (_NOT_BACKENDS >> key) & 1:
                not_available(
                    self, keys
                )  # the host's kernels cannot read what is there
            if (keys >> KEY_ABSENT) & 1 and not self.is_view:
                refuse_absent(self, keys)
            keys &= BACKEND_BITS
            if following and not self.is_view:
                fetch_arguments(self, slots)
        if self.table[key] != cython.NULL:
            # owned for the call: it may take the entry out of the table
            kernel: Kernel = cython.cast(Kernel, self.table[key])
            return kernel.run(self, slots, keys)
        if key == KEY_AUTOGRAD:
            return _RECORDER.record(self, slots, keys)
        return _RECORDER.keep_books(self, slots, keys)

    @cython.cfunc
    def compose(self, slots: pp_object, keys: uint64_t) -> object:
        """Run the composition; whoever listens is told that its calls are not a program's."""
        st: cython.pointer(ThreadState)
        before: uint64_t
        one: uint64_t = 1
        if not (keys >> KEY_DECOMPOSE) & 1:
            return self.composite.run(self, slots, 0)
        st = state()
        before = st.included & (one << KEY_COMPOSING)
        st.included |= one << KEY_COMPOSING
        try:
            return self.composite.run(self, slots, 0)
        finally:
            st.included = (st.included & ~(one << KEY_COMPOSING)) | before

    @cython.cfunc
    def run_converted(
        self, slots: pp_object, keys: uint64_t, key: cython.int
    ) -> object:
        """The same at a key that some backends have an entry of their own for."""
        one: uint64_t = 1
        backends: uint64_t = keys & BACKEND_BITS
        backend: cython.int = 63 - __builtin_clzll(backends) if backends else 0
        kernel: Kernel = self.by_backend.get((key, backend))
        if kernel is None and self.table[key] != cython.NULL:
            kernel = cython.cast(Kernel, self.table[key])
        if kernel is not None:
            return kernel.run(self, slots, keys)
        if not (self.alike >> key) & 1:
            return self.run(slots, keys & ~(one << key))
        if key == KEY_AUTOGRAD:
            return _RECORDER.record(self, slots, keys)
        return _RECORDER.keep_books(self, slots, keys)


def names_of(entry, form):
    """The rows of an overload's further names that go for a form of it."""
    if not entry:
        return ()
    asked = (form,) if form == OUT else (None, form)
    return tuple(row for row in entry[OVERLOADS] if row[OVERLOAD_FORM] in asked)


@cython.cfunc
def refuse_absent(op: Operator, keys: uint64_t):
    """A kernel has nothing to read where a tensor has no memory of its own."""
    backend = DispatchKey(63 - __builtin_clzll(keys & BACKEND_BITS)).name
    raise NotImplementedError(
        f"Could not run '{op.namespace}::{op.name}' with arguments that have no memory "
        f"of their own: no kernel for the '{backend}' backend can read them.\n"
        "  remedy: define __torch_dispatch__ for their type, and call the operator with "
        "the tensors inside"
    )


@cython.cfunc
@cython.exceptval(-1, check=False)
def fetch_arguments(op: Operator, slots: pp_object) -> cython.int:
    """Storages that another thread's operators are to fill are filled."""
    i: cython.int
    for i in range(op.n_tensors):
        item = cython.cast(object, slots[op.tensor_args[i]])
        if isinstance(item, Tensor):
            fetch(cython.cast(Tensor, item).storage)
        elif isinstance(item, (list, tuple)):
            for element in item:
                if isinstance(element, Tensor):
                    fetch(cython.cast(Tensor, element).storage)
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
@cython.exceptval(-1, check=False)
def refuse_inference_output(target: object) -> cython.int:
    if isinstance(target, Tensor):
        if cython.cast(Tensor, target).inference:
            refuse_inference_write(target)
    elif isinstance(target, (tuple, list)):
        for item in target:
            refuse_inference_write(item)
    return 0


@cython.cfunc
def name_of_node(name: str) -> str:
    """``log_softmax.int`` -> ``LogSoftmaxBackward0``."""
    base = name.split(".")[0]
    parts = [part[:1].upper() + part[1:] for part in base.split("_") if part]
    return "".join(parts) + "Backward0"


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


def keep_for_good(item):
    """Take what is never freed, and tuples in it, off the collector's lists.

    The build's operators and their rows stay as long as the process: 30,000 objects that
    every full collection, and each of those at exit, would look through.
    """
    PyObject_GC_UnTrack(cython.cast(p_object, item))
    if isinstance(item, tuple):
        for part in item:
            if isinstance(part, tuple):
                keep_for_good(part)


def packets():
    """All packets, by (namespace, name)."""
    return _PACKETS


def serve_all(key, kernel):
    """Serve every operator without an entry for ``key``; None takes it back.

    Args:
        key: the dispatch key.
        kernel: a `Kernel`.
    """
    number: cython.int = int(key)
    former = _FALLBACKS.pop(number, None)  # alive until no table points to it
    _SERVED[number] = cython.NULL
    if kernel is not None:
        _FALLBACKS[number] = kernel
        _SERVED[number] = cython.cast(p_object, kernel)
    for op in _EVERY_OPERATOR:
        op.refresh()
    del former


def forget(op):
    """Take an operator out of the registry."""
    _EVERY_OPERATOR.remove(op)


def forget_packet(namespace, name):
    """Take a name out of the registry."""
    _PACKETS.pop((namespace, name), None)
