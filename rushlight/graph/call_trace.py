"""What a call of a path is noted as: its operator, what it was given, what it gave."""

from __future__ import annotations

import cython
from cython.cimports.libc.stdint import uint64_t
from cython.cimports.rushlight.core._python import pp_object
from cython.cimports.rushlight.core.tensor import Tensor, view_replay_of
from cython.cimports.rushlight.dispatch.dispatcher import FUNCTIONAL, Operator
from cython.cimports.rushlight.dispatch.kernels import PointwiseKernel
from cython.cimports.rushlight.dispatch.python_kernels import PythonKernel
from cython.cimports.rushlight.graph.tape import (
    ARGUMENT,
    CONSTANT,
    FRESH,
    NOTHING,
    NUMBER,
    TENSOR,
    TENSORS,
    WINDOW,
    Call,
    Tape,
    Value,
    is_same,
    usable,
    value_of,
)

from rushlight.core.factories import on_fill
from rushlight.dispatch.declared import TAGS, says
from rushlight.dispatch.library import with_fakes
from rushlight.dispatch.python_kernels import LazyKernel
from rushlight.graph.steps import step_of

_CPU = cython.declare(uint64_t, 1)
# on the host or not -> operator -> whether it may be noted as parts
_PARTED = cython.declare(tuple, ({}, {}))
_WHOLE = cython.declare(dict, {})  # composition -> whether it may be one call
_SHARES = cython.declare(dict, {})  # composition -> where shares of what to drop are
_WAITS = cython.declare(dict, {})  # operator -> whether its floats may vary
_FILLED = cython.declare(cython.bint, False)


def _fill_new_memory(filled):
    global _FILLED
    _FILLED = filled


on_fill(_fill_new_memory)


@cython.cfunc
@cython.exceptval(-1, check=False)
def fills(op: Operator) -> cython.bint:
    """Whether an operator makes memory now that is written to, which no path has."""
    return _FILLED and says(op, "unset")


@cython.cfunc
@cython.exceptval(-1, check=False)
def floats_vary(op: Operator) -> cython.bint:
    """Whether floats among an operator's arguments change values only, not shapes."""
    found = _WAITS.get(op)
    if found is None:
        kernel = op.kernels.get(0)
        if isinstance(kernel, LazyKernel):
            kernel = kernel.load(op)
        found = isinstance(kernel, PointwiseKernel)
        _WAITS[op] = found
    return found


@cython.cfunc
def loaded(op: Operator, keys: uint64_t) -> object:
    """What an operator is on the backend of a key."""
    kind: cython.int = 0
    while not (keys >> kind) & 1:
        kind += 1
    kernel = op.kernels.get(kind)
    if isinstance(kernel, LazyKernel):
        kernel = kernel.load(op)
    return kernel


@cython.cfunc
@cython.exceptval(-1, check=False)
def may_be_parts(op: Operator, keys: uint64_t) -> cython.bint:
    """Whether an operator is a function of ours that may be made of other operators."""
    known: dict = _PARTED[keys & _CPU]
    found = known.get(op)
    if found is None:
        kernel = loaded(op, keys)
        found = (
            isinstance(kernel, PythonKernel)
            and op.form == FUNCTIONAL
            and not op.is_view
            and bool(op.entry)
            and "random" not in op.entry[TAGS]
            and "data_dependent" not in op.entry[TAGS]
        )
        known[op] = found
    return found


@cython.cfunc
@cython.exceptval(-1, check=False)
def never_one(op: Operator) -> cython.int:
    """A composition turned out to be more than one call can be."""
    _WHOLE[op] = False
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def may_be_one(op: Operator) -> cython.bint:
    """Whether a composition of ours may be one call of a path."""
    found = _WHOLE.get(op)
    if found is None:
        kernel = op.composite
        if isinstance(kernel, LazyKernel):
            kernel = kernel.load(op)
        found = (
            op.form == FUNCTIONAL
            and not op.is_view
            and not op.view_or_copy
            and bool(op.entry)
            and isinstance(kernel, PythonKernel)
            and "data_dependent" not in op.entry[TAGS]
        )
        _WHOLE[op] = found
    return found


@cython.cfunc
@cython.exceptval(-1, check=False)
def draws(op: Operator) -> cython.bint:
    """Whether an operator may draw random numbers; so may all from outside."""
    return not op.entry or "random" in op.entry[TAGS]


@cython.cfunc
@cython.exceptval(-1, check=False)
def drops(op: Operator, slots: pp_object) -> cython.bint:
    """Whether a composition may draw, as its arguments are: it has a share of what to drop.

    Such ones are their parts on paths, so that each draw is an operator of its own.
    """
    i: cython.int
    found = _SHARES.get(op)
    if found is None:
        names = op.signature.names
        found = [i for i in range(op.n_args) if names[i] in ("p", "dropout_p")]
        _SHARES[op] = found = found if draws(op) else []
    for i in found:
        if cython.cast(object, slots[i]) != 0:
            return True
    return False


@cython.cfunc
@cython.exceptval(-1, check=False)
def any_wants(op: Operator, slots: pp_object) -> cython.bint:
    """Whether a tensor among the arguments wants a gradient."""
    i: cython.int
    t: Tensor
    for i in range(op.n_tensors):
        item = cython.cast(object, slots[op.tensor_args[i]])
        for element in item if isinstance(item, (list, tuple)) else (item,):
            if isinstance(element, Tensor):
                t = element
                if t.wants_grad or (t.base is not None and t.base.wants_grad):
                    return True
    return False


@cython.cfunc
@cython.exceptval(-1, check=False)
def keep_roots(
    call: Call, op: Operator, slots: pp_object, result: object
) -> cython.bint:
    """Keeps what the results are views of; False where others would have to know of it."""
    i: cython.int = 0
    t: Tensor
    v: Value
    root: Tensor
    for item in (result,) if call.shape is None else result:
        kind, value = call.results[i]
        i += 1
        if not isinstance(item, Tensor) or kind == ARGUMENT:
            continue
        t = item
        if t.wants_grad or t.grad_fn_ is not None:
            return False
        if t.base is None:
            continue
        root = t.base
        if view_replay_of(t) is not None:
            return False
        v = value
        v.creation = t.view_creation
        if kind == FRESH and root.storage is t.storage and root.base is None:
            v.root = value_of(root, v.slot)
            continue
        v.of = whose_view(op, slots, root)
        if v.of is None:
            return False
    return True


@cython.cfunc
def whose_view(op: Operator, slots: pp_object, root: Tensor) -> object:
    """Which argument is a tensor, or has it for its base."""
    i: cython.int
    t: Tensor
    for i in range(op.n_args):
        item = cython.cast(object, slots[i])
        if isinstance(item, Tensor):
            t = item
            if t is root or t.base is root:
                return i
    return None


@cython.cfunc
@cython.exceptval(-1, check=False)
def writes_given(call: Call) -> cython.bint:
    """Whether some part writes to what the call was given: versions would be missed."""
    for part in call.parts:
        for value in step_of(part).writes:
            if value.slot < call.first:
                return True
    return False


@cython.cfunc
@cython.exceptval(-1, check=False)
def is_static(op: Operator, i: cython.int) -> cython.bint:
    """Whether a kernel of the operator is compiled for one value of an argument."""
    kernel = op.kernels.get(0)
    if isinstance(kernel, LazyKernel):
        kernel = kernel.load(op)
    if isinstance(kernel, PointwiseKernel):
        return i in cython.cast(PointwiseKernel, kernel).static_positions
    return False


@cython.cfunc
@cython.exceptval(-1, check=False)
def has_known_sizes(op: Operator) -> cython.bint:
    """Whether the sizes of results follow from those of arguments, whatever it reads.

    An operator from outside says so by a function for shapes, or gives nothing.
    """
    if op.entry:
        return says(op, "fixed_sizes")
    return not op.returns or op in with_fakes


@cython.cfunc
@cython.exceptval(-1, check=False)
def sizes_hang_on_elements(op: Operator, slots: pp_object) -> cython.bint:
    """Whether results may have other sizes next time."""
    if not op.entry:
        return not has_known_sizes(op)
    if "data_dependent" in op.entry[TAGS]:
        return True
    base: str = op.base_name()
    if base == "repeat_interleave":
        return True
    if base != "index" and base != "_unsafe_index":
        return False
    for item in cython.cast(object, slots[1]):
        if isinstance(item, Tensor) and cython.cast(Tensor, item).dtype_.itemsize == 1:
            return True  # a mask
    return False


@cython.cfunc
def noted(tape: Tape, op: Operator, slots: pp_object, keys: uint64_t) -> Call:
    """A call as it is before it runs; None where it has no place on a path.

    Args:
        keys: the backend's.
    """
    call: Call = Call()
    i: cython.int
    call.op = op
    call.keys = keys
    call.values = []
    for i in range(op.n_args):
        item = cython.cast(object, slots[i])
        call.kinds[i] = CONSTANT
        if isinstance(item, Tensor):
            item = noted_tensor(tape, item)
            if item is None:
                return None
            call.kinds[i] = TENSOR
        elif (
            type(item) is float
            and tape.varies
            and floats_vary(op)
            and not is_static(op, i)
        ):
            call.kinds[i] = NUMBER
            tape.params.append(item)
            item = len(tape.params) - 1
        elif isinstance(item, (list, tuple)):
            tensors: cython.bint = False
            copied: list = []
            for element in item:
                if isinstance(element, Tensor):
                    tensors = True
                    element = noted_tensor(tape, element)
                    if element is None:
                        return None
                copied.append(element)
            if tensors:
                call.kinds[i] = TENSORS
            item = copied if type(item) is list else tuple(copied)
        call.values.append(item)
    return call


@cython.cfunc
def noted_tensor(tape: Tape, t: Tensor) -> Value:
    """A tensor argument's window; None where it is of no kind that can wait."""
    slot: cython.int
    if not usable(t):
        return None
    slot = tape.find(t.storage)
    if slot < 0:
        if tape.overlaps(t.storage):
            return None
        slot = tape.add(t.storage, False)
    return value_of(t, slot)


@cython.cfunc
@cython.exceptval(-1, check=False)
def note_results(
    tape: Tape, call: Call, op: Operator, slots: pp_object, result: object
) -> cython.bint:
    """What a call gave; False where it has no place on a path."""
    t: Tensor
    items: object = (result,)
    slot: cython.int
    part: Call
    made: cython.bint = False
    call.shape = None
    if call.parts is not None:
        for part in call.parts:
            if part.sizes:
                if made and not is_same(part.device, call.device):
                    return False
                call.device = part.device
                made = True
    if type(result) is tuple or type(result) is list:
        call.shape = type(result)
        items = result
    elif isinstance(result, tuple):
        return False
    if call.parts is None:
        call.first = len(tape.slots)
    call.results = []
    call.sizes = bytes_of_parts(call, len(tape.slots))
    for item in items:
        if item is None:
            call.results.append((NOTHING, None))
            continue
        if not isinstance(item, Tensor):
            return False
        place = find_argument(op, slots, item)
        if place is not None:
            call.results.append((ARGUMENT, place))
            continue
        t = item
        if not usable(t) or type(item) is not Tensor:
            return False
        slot = tape.find(t.storage)
        if slot >= 0:
            kind = FRESH if slot >= call.first else WINDOW
            call.results.append((kind, value_of(t, slot)))
            continue
        if t.storage.n_bytes and not t.storage.capacity:
            return False  # memory that belongs to someone else
        if call.sizes and not is_same(call.device, t.storage.device):
            return False
        call.device = t.storage.device
        if not keeps_device(call):
            return False
        slot = tape.add(t.storage, True)
        call.sizes.append(t.storage.n_bytes)
        call.results.append((FRESH, value_of(t, slot)))
    call.lone = (
        call.shape is None and len(call.sizes) == 1 and call.results[0][0] == FRESH
    )
    return True


@cython.cfunc
@cython.exceptval(-1, check=False)
def keeps_device(call: Call) -> cython.bint:
    """Whether a call's tensors are all on the device of its results."""
    i: cython.int
    for i in range(call.op.n_args):
        noted_item = call.values[i]
        for item in noted_item if call.kinds[i] == TENSORS else (noted_item,):
            if isinstance(item, Value):
                if not is_same(cython.cast(Value, item).device, call.device):
                    return False
    return True


@cython.cfunc
def bytes_of_parts(call: Call, end: cython.int) -> list:
    """The bytes of the storages that a call's parts made, in their order."""
    part: Call
    found: list = []
    if call.parts is not None:
        for part in call.parts:
            found += part.sizes
    if len(found) != end - call.first:
        raise RuntimeError("the parts of a call made other storages than were numbered")
    return found


@cython.cfunc
def find_argument(op: Operator, slots: pp_object, t: object) -> object:
    """Which argument a result is."""
    i: cython.int
    j: cython.int
    for i in range(op.n_args):
        item = cython.cast(object, slots[i])
        if item is t:
            return i
        if isinstance(item, (list, tuple)):
            j = 0
            for element in item:
                if element is t:
                    return (i, j)
                j += 1
    return None


@cython.cfunc
@cython.exceptval(-1, check=False)
def keeps_looks(tape: Tape, call: Call, slots: pp_object) -> cython.bint:
    """Whether all tensors that were passed look as before, on the same memory."""
    i: cython.int
    v: Value
    t: Tensor
    for i in range(call.op.n_args):
        if call.kinds[i] == TENSOR:
            v = call.values[i]
            t = cython.cast(object, slots[i])
            if not v.fits(t) or tape.find(t.storage) != v.slot:
                return False
        elif call.kinds[i] == TENSORS:
            for noted_item, item in zip(call.values[i], cython.cast(object, slots[i])):
                if isinstance(noted_item, Value):
                    v = noted_item
                    t = item
                    if not v.fits(t) or tape.find(t.storage) != v.slot:
                        return False
    return True


@cython.cfunc
def window_of(tape: Tape, t: Tensor) -> tuple:
    """A storage's number, or what stands for one that has none yet, and the window's look."""
    slot: cython.int = tape.find(t.storage)
    where: object = slot if slot >= 0 else ("new", id(t.storage))
    return where, value_of(t, -1).look


@cython.cfunc
def keep_view(tape: Tape, op: Operator, slots: pp_object, result: object):
    """Keeps which operator made windows, of which window: graphs for others show it."""
    i: cython.int
    args: list = []
    for i in range(op.n_args):
        item = cython.cast(object, slots[i])
        args.append(window_of(tape, item) if isinstance(item, Tensor) else item)
    results = result if isinstance(result, (list, tuple)) else (result,)
    made = op, args, isinstance(result, (list, tuple))
    for number, item in enumerate(results):
        if isinstance(item, Tensor) and window_of(tape, item) not in args:
            tape.views.setdefault(window_of(tape, item), (made, number))
