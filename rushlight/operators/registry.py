"""From the generated tables to callable operators: kernels, forms, methods, namespaces."""

import gc
import importlib
import sys
import types

from rushlight.core.slots import SLOT_NAMES, bind_slots
from rushlight.core.tensor import Tensor, install
from rushlight.dispatch import overload as _overload  # operators' further attributes
from rushlight.dispatch import profiling as _profiling  # before there are operators
from rushlight.dispatch.declared import (
    ARGUMENT,
    ARGUMENTS,
    BY_KEY,
    CHECK,
    DECOMPOSITION,
    DERIVATIVE,
    DUNDERS,
    IMPLEMENTATION,
    KIND,
    MODULE,
    NAME,
    NAMESPACE,
    NODE,
    NUMBER_KINDS,
    OPTIONAL,
    OUTPUT,
    RULE,
    TAGS,
    VARIANTS,
)
from rushlight.dispatch.deferred import DeferredKernel, bind_lazy_conj, passes
from rushlight.dispatch.derived import DerivedKernel, set_copy_operator
from rushlight.dispatch.dispatcher import Derivative, Operator, every_operator
from rushlight.dispatch.enums import ArgumentKind
from rushlight.dispatch.kernels import PointwiseKernel
from rushlight.dispatch.keys import BACKENDS, DispatchKey
from rushlight.dispatch.launch_cache import PlannedComposite, PlannedKernel
from rushlight.dispatch.outputs import OUT_RULES, set_overlapping_writer
from rushlight.dispatch.overridable import method
from rushlight.dispatch.packet import OperatorPacket, describe_with
from rushlight.dispatch.python_kernels import (
    DecompositionKernel,
    LazyKernel,
    PythonKernel,
    set_fallback,
)
from rushlight.operators import call
from rushlight.operators.return_types import return_type
from rushlight.operators.sparse import layout_fallbacks

FUNCTION, METHOD, INPLACE, OUT = 1, 2, 4, 8
_HOST = (DispatchKey.CPU, DispatchKey.Meta)
# Whoever compiles kernels runs these; what only the host can run refuses at its launch.
_ELEMENTS = (*_HOST, DispatchKey.CUDA)
_MEMORY = (DispatchKey.CPU, DispatchKey.CUDA)
# Tags of functions that ask a device's backend for all that they do with its memory.
_ANYWHERE = frozenset(("anywhere", "reshapes"))
# Where forms without a kernel copy the operator's result.
_SPARSE = (DispatchKey.SparseCPU, DispatchKey.SparseCsrCPU)
_DERIVED = DerivedKernel()

# Python namespaces: None is `rushlight` itself.
namespaces = {}


def load(entries):
    """Make operators of generated entries; those of one name are adjacent."""
    collecting = gc.isenabled()
    gc.disable()  # what is made here stays: looking through it finds nothing to free
    try:
        make_operators(entries)
    finally:
        if collecting:
            gc.enable()


def make_operators(entries):
    """Packets of the entries, and what is attached to them when all are there."""
    layout_fallbacks.refuse_others()  # first: every operator looks for it when it is made
    at = 0
    while at < len(entries):
        end = at + 1
        while end < len(entries) and entries[end][0] == entries[at][0]:
            end += 1
        define_packet(entries[at:end])
        at = end
    set_copy_operator(call.copy_.overloads[0])
    set_overlapping_writer(write_overlapping)
    defer()
    layout_fallbacks.bind({op.full_name: op for op in every_operator()})


def write_overlapping(*args):
    from rushlight.operators import overlapping_writes

    return overlapping_writes.write_to_overlapping(*args)


def defer():
    """Let conjugates and negatives wait until a kernel wants the numbers."""
    for op in every_operator():
        if passes(op):
            op.set_fallthrough(DispatchKey.Conjugate)
            op.set_fallthrough(DispatchKey.Negative)
    bind_lazy_conj(call._conj)
    for key, packet in (
        (DispatchKey.Conjugate, call._conj_physical), (DispatchKey.Negative, call.neg),
    ):  # fmt: skip
        kernel = DeferredKernel(key, packet.overloads[0], call.clone.overloads[0])
        set_fallback(key, kernel)


def define_packet(entries, namespace="aten"):
    """One name with all its overloads: functions, methods, derived forms."""
    name = entries[0][NAME]
    operators = [make_operator(entry, namespace) for entry in entries]
    packet = OperatorPacket(namespace, name, operators)
    setattr(call, name, packet.as_function())
    variants = 0
    dunders = []
    for entry in entries:
        variants |= entry[VARIANTS]
        dunders += entry[DUNDERS]
    inplace = [op.inplace for op in operators if op.inplace is not None]
    inplace_packet = None
    if inplace:
        inplace_packet = OperatorPacket(namespace, name + "_", inplace)
        setattr(call, name + "_", inplace_packet.as_function())
    own = packet.as_method()
    own_inplace = inplace_packet and inplace_packet.as_method()
    shown = "shown" in entries[0][TAGS]
    publish(name, packet, inplace_packet, variants, entries[0][NAMESPACE], shown)
    if variants & METHOD:
        install(name, own)
        if own_inplace is not None:
            install(name + "_", own_inplace)
    position = next(
        (i for i, row in enumerate(entries[0][ARGUMENTS]) if row[0] == "self"), 0
    )
    if position and variants & METHOD:
        install(name, method(name, with_receiver(packet, position)))
        if inplace_packet is not None:
            install(
                name + "_", method(name + "_", with_receiver(inplace_packet, position))
            )
    bind_dunders(own, own_inplace, dunders)
    return packet


def with_receiver(packet, position):
    """A method for operators whose ``self`` is not their first argument."""

    def receive(self, /, *args, **kwargs):
        if "out" in kwargs:
            raise TypeError(f"{packet.name}() got an unexpected keyword argument 'out'")
        if len(args) < position:
            return packet(*args, self=self, **kwargs)
        return packet(*args[:position], self, *args[position:], **kwargs)

    receive.packet = packet.as_method()  # whose docstring and signature are its own
    return receive


def publish(name, packet, inplace_packet, variants, namespace, shown):
    """Put a packet where users look for it."""
    if not variants & FUNCTION or name.startswith("_") and not shown:
        return
    target = namespaces.setdefault(namespace, {})
    prefix = "" if namespace is None else namespace.replace(".", "_") + "_"
    target[name.removeprefix(prefix)] = packet.as_function()
    if inplace_packet is not None:
        target[name.removeprefix(prefix) + "_"] = inplace_packet.as_function()


def bind_dunders(packet, inplace_packet, dunders):
    """Answer Python's operators with a packet."""
    table = {}
    for dunder in dunders:
        slot = dunder.strip("_")
        if slot not in SLOT_NAMES:
            install(dunder, packet)
        elif dunder.startswith("__i") and slot[1:] in SLOT_NAMES:
            table[slot] = packet if inplace_packet is None else inplace_packet
        else:
            table[slot] = packet
    bind_slots(table)


def make_operator(entry, namespace="aten"):
    """An operator with its in-place and ``out=`` forms, kernels attached."""
    name, overload, rows, returns, variants = entry[:5]
    kind = entry[IMPLEMENTATION][KIND]
    full = f"{name}.{overload}" if overload else name
    derivative = make_derivative(entry[DERIVATIVE])
    written = bool(rows) and bool(rows[0][5] & 1) and name.endswith("_")
    op = Operator(
        namespace,
        full,
        rows,
        returns,
        form=1 if written else 0,
        derivative=derivative,
        tags=entry[TAGS],
        entry=entry,
        is_view=(kind == "view" and "unrelated" not in entry[TAGS])
        or "reshapes" in entry[TAGS],
        node_name=node_name(entry),
    )
    if len(returns) > 1 and returns[0][1]:
        op.set_return_type(return_type(name, tuple(row[1] for row in returns)))
    op.set_out_rule(0, entry)  # its own result may be row by row, too
    inplace = out = None
    if variants & INPLACE:
        inplace = Operator(
            namespace,
            name + "_" + (f".{overload}" if overload else ""),
            rows,
            returns,
            form=1,
            derivative=derivative,
            functional=op,
            entry=entry,
            node_name=node_name(entry),
        )
    if variants & OUT:
        several = len(returns) > 1 or returns[0][0] == 2
        out_row = ("out", 2 if several else 0, ..., True, 0, 1)
        out = Operator(
            namespace,
            f"{name}.{overload + '_' if overload else ''}out",
            (*rows, out_row),
            returns,
            form=2,
            functional=op,
            entry=entry,
            node_name=node_name(entry),
        )
        out.set_out_rule(out_rule(kind, entry[OUTPUT]), entry)
    if inplace is not None:
        inplace.set_overlap(entry)
    if inplace is not None and "zero_grad" in entry[OUTPUT]:
        inplace.set_derivative(_FLAT)
    if out is not None and op.return_type is not None:
        out.set_return_type(return_type(f"{name}_out", op.return_type._fields))
    op.set_forms(inplace, out)
    attach_kernels(op, inplace, out, entry)
    attach_decomposition(op, entry)
    return op


def out_rule(kind, words):
    """The number of the rule for the type of ``out=``, declared or usual for the kind."""
    for word in words:
        if word in OUT_RULES:
            return OUT_RULES[word]
    return OUT_RULES["cast" if kind in ("pointwise", "reduction") else "exact"]


def flat_gradients(needs, grad):
    """Zeros for both operands of a comparison in place."""
    zeros = call.zeros_like(grad)
    return zeros if needs & 1 else None, zeros if needs & 2 else None


# Comparisons have truth values as results, but in place their results may be floats,
# which belong to the graph: their gradient is zero.
_FLAT = Derivative(
    __name__, "flat_gradients", (), ((0, False), (1, False)), 0, (0,), flat_gradients
)


def node_name(entry):
    """What an operator's nodes are called, or ``:module:function:saved`` that says it.

    ``log_softmax`` -> ``LogSoftmaxBackward0``, ``conv2d`` -> ``Conv2DBackward0``.
    """
    declared = entry[NODE]
    if isinstance(declared, str):
        return declared
    if declared is not None:
        return ":" + ":".join(declared)
    return entry[NAME].title().replace("_", "") + "Backward0"


def make_derivative(row):
    """The derivative of a table row, or None."""
    if row is None:
        return None
    module, function, saved, groups, flags, outputs = row
    return Derivative(module, function, saved, groups, flags, outputs)


def attach_decomposition(op, entry):
    """What PyTorch takes the operator apart into, where Python listens."""
    if entry[DECOMPOSITION] is not None:
        composing = "recorded_in_parts" not in entry[TAGS]
        kernel = DecompositionKernel(*entry[DECOMPOSITION], composing)
        op.set_kernel(DispatchKey.Decompose, kernel)


def attach_kernels(op, inplace, out, entry):
    """Fill the dispatch tables of an operator and of its derived forms."""
    kind, module, attribute = entry[IMPLEMENTATION][:3]
    forms = [form for form in (inplace, out) if form is not None]
    if kind in ("pointwise", "reduction"):
        make = make_pointwise if kind == "pointwise" else make_reduction
        kernel = LazyKernel(module, attribute, make)
        shared = forms if kind == "pointwise" else []
        for form in [op, *shared]:
            for key in _ELEMENTS:
                form.set_kernel(key, kernel)
    elif kind == "composite":
        make = make_planned_composite if "planned" in entry[TAGS] else None
        if entry[IMPLEMENTATION][ARGUMENT] is not None:
            make = make_of_argument
        op.set_composite(LazyKernel(module, attribute, make))
        # another name of an operator is another name of its other forms, too
        if module == call.__name__ and inplace is not None:
            inplace.set_composite(LazyKernel(module, attribute + "_"))
            forms.remove(inplace)
        if module == call.__name__ and out is not None:
            out.set_composite(LazyKernel(module, attribute, make_writer))
            forms.remove(out)
        elif "own_kernel" in entry[OUTPUT]:
            out.set_composite(LazyKernel(module, f"{attribute}_into"))
            forms.remove(out)
    elif kind in ("cpu", "view"):
        attach_everywhere(op, inplace, out, entry)
    for form in forms:
        derive_kernels(form, kind)
    attach_by_key(op, inplace, out, entry)


def attach_everywhere(op, inplace, out, entry):
    """The host's kernel at every key of a device."""
    kind, module, attribute = entry[IMPLEMENTATION][:3]
    make = make_planned if "planned" in entry[TAGS] else None
    kernel = LazyKernel(module, attribute, make)
    everywhere = kind == "view" or _ANYWHERE.intersection(entry[TAGS])
    for key in BACKENDS if everywhere else _ELEMENTS:
        op.set_kernel(key, kernel)
        if "own_kernel" in entry[OUTPUT]:
            out.set_kernel(key, LazyKernel(module, f"{attribute}_into"))
    if "in_place_kernel" in entry[OUTPUT] and inplace is not None:
        for key in _MEMORY:
            inplace.set_kernel(key, LazyKernel(module, f"{attribute}_"))


def attach_by_key(op, inplace, out, entry):
    """Kernels of single keys; sparse forms without one copy the operator's result."""
    for name, *kernels in entry[IMPLEMENTATION][BY_KEY]:
        key = DispatchKey[name]
        for form, (module, attribute, argument) in zip((op, inplace), kernels):
            make = make_planned if "planned" in entry[TAGS] else None
            if key not in BACKENDS:
                make = None if argument is None else made_of(argument)
            form.set_kernel(key, LazyKernel(module, attribute, make))
    for key in _SPARSE:
        for form in (inplace, out):
            if form is not None and op.has_kernel(key) and not form.has_kernel(key):
                form.set_kernel(key, _DERIVED)


def made_of(argument):
    """What makes the kernel that a function makes of an argument."""
    return lambda make, op: PythonKernel(make(argument))


def make_writer(packet, op):
    """The ``out=`` form of another name: the operator's own ``out=`` form."""

    def write(*args):
        return packet(*args[:-1], out=args[-1])

    return PythonKernel(write)


def derive_kernels(form, kind):
    """In-place and ``out=`` forms where no kernel of their own is registered."""
    if kind == "composite":
        form.set_composite(_DERIVED)
        return
    for key in BACKENDS:
        if not form.has_kernel(key):
            form.set_kernel(key, _DERIVED)


def static_arguments(rows):
    """Positions of the arguments that elementwise kernels know when compiling."""
    return tuple(
        i
        for i, row in enumerate(rows)
        if ArgumentKind.INT <= row[1] <= ArgumentKind.BOOLS
        and row[1] not in NUMBER_KINDS
        and row[0] not in ("out", "dtype")
    )


def make_pointwise(source, op):
    """The compiled kernel around a ``@pointwise`` function."""
    base = op if op.functional is None else op.functional
    rule, promoting = base.entry[RULE]
    return PointwiseKernel(
        source,
        base,
        rule,
        promoting,
        static_arguments(base.signature.rows),
        base.entry[IMPLEMENTATION][MODULE],
        base.entry[IMPLEMENTATION][OPTIONAL],
        base.entry[IMPLEMENTATION][CHECK],
    )


def make_of_argument(make, op):
    """The kernel that a function makes of the declaration's argument."""
    function = make(op.entry[IMPLEMENTATION][ARGUMENT])
    return (PlannedComposite if "planned" in op.entry[TAGS] else PythonKernel)(function)


def make_planned(function, op):
    """The kernel of a function that does again what it did for like operands."""
    return PlannedKernel(function)


def make_planned_composite(function, op):
    """The same of a composition of operators."""
    return PlannedComposite(function)


def make_reduction(source, op):
    """The compiled kernel around a ``@reduction`` object."""
    from rushlight.dispatch.reductions import ReductionKernel

    return ReductionKernel(
        source, op, op.entry[RULE][0], op.entry[IMPLEMENTATION][MODULE]
    )


def find(name):
    """The packet called ``name``: ``add``, ``aten::add``, ``softmax``.

    Raises:
        AttributeError: nothing has that name.
    """
    return getattr(call, name.removeprefix("aten::").split(".")[0])


def load_tables(tables):
    """Load the tables that the build wrote: `rushlight._generated.tables`."""
    load(tables.OPERATORS)
    describe_with(lambda: importlib.import_module("rushlight.operators.introspection"))
