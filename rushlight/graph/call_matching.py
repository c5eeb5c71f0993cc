"""Which noted call a call is: its arguments beside those of the branches at a place.

A place keeps its branches by a hash of what an argument may be: the operator, sizes, types
and numbers. So a place with hundreds of shapes finds one as fast as a place with two. What
is kept is bounded: the branch that was taken least recently makes room.
"""

from __future__ import annotations

import cython
from cython.cimports.cpython.tuple import PyTuple_GET_SIZE
from cython.cimports.libc.stdint import int64_t, uint64_t, uintptr_t
from cython.cimports.rushlight.core._python import p_object, pp_object
from cython.cimports.rushlight.core.keys import DEFERRED
from cython.cimports.rushlight.core.tensor import Tensor
from cython.cimports.rushlight.dispatch.dispatcher import Operator
from cython.cimports.rushlight.graph.call_trace import floats_vary, is_static
from cython.cimports.rushlight.graph.tape import (
    CONSTANT,
    NUMBER,
    TENSOR,
    Call,
    Tape,
    Value,
    usable,
)

_PRIME = cython.declare(uint64_t, 1099511628211)
_ANY_FLOAT = cython.declare(object, 0.0)
_SEEN = cython.declare(cython.Py_ssize_t, 4096)  # hashes of calls that came once
# In place of how often a call came: it came once, or often enough, and is noted next.
_ONCE = cython.declare(cython.longlong, -1)
_OFTEN = cython.declare(cython.longlong, -2)
_IDLE = cython.declare(cython.longlong, 4)  # times a full place before a branch goes


@cython.cfunc
@cython.exceptval(-1, check=False)
def same_constant(a: object, b: object) -> cython.bint:
    """Whether a constant is the noted one: of the same type, and equal."""
    i: cython.Py_ssize_t
    if a is b:
        return True
    if isinstance(a, tuple) and isinstance(b, tuple):  # sizes are a type of their own
        if PyTuple_GET_SIZE(a) != PyTuple_GET_SIZE(b):
            return False
        for i in range(PyTuple_GET_SIZE(a)):
            if not same_constant(cython.cast(tuple, a)[i], cython.cast(tuple, b)[i]):
                return False
        return True
    if type(a) is not type(b):
        return False
    if type(a) is float:
        return a == b and (a != 0 or str(a) == str(b))
    if type(a) is list:
        if len(a) != len(b):
            return False
        for i in range(len(a)):
            if not same_constant(cython.cast(list, a)[i], cython.cast(list, b)[i]):
                return False
        return True
    if type(a) is int or type(a) is bool or type(a) is str or type(a) is complex:
        return a == b
    try:
        return bool(a == b)
    except Exception:  # whatever it is, it does not compare
        return False


@cython.cfunc
@cython.exceptval(-1, check=False)
def same_tensor(tape: Tape, v: Value, item: object) -> cython.bint:
    """Whether an argument is the noted window on the noted storage."""
    t: Tensor
    slot: cython.int
    if not isinstance(item, Tensor):
        return False
    t = cython.cast(Tensor, item)
    if not v.fits(t):
        return False
    slot = tape.find(t.storage)
    if slot < 0:
        if v.slot != len(tape.slots) or not usable(t) or tape.overlaps(t.storage):
            return False
        tape.add(t.storage, False)
        return True
    return slot == v.slot


@cython.cfunc
@cython.exceptval(-1, check=False)
def same_list(tape: Tape, noted: object, items: object) -> cython.bint:
    """Whether a list with tensors is the noted one."""
    j: cython.Py_ssize_t
    if not isinstance(items, (list, tuple)) or len(items) != len(noted):
        return False
    for j in range(len(noted)):
        one = noted[j]
        if isinstance(one, Value):
            if not same_tensor(tape, cython.cast(Value, one), items[j]):
                return False
        elif isinstance(items[j], Tensor) or not same_constant(items[j], one):
            return False
    return True


@cython.cfunc
@cython.exceptval(-1, check=False)
def matches(tape: Tape, call: Call, op: Operator, slots: pp_object) -> cython.bint:
    """Whether a call is the noted one; its inputs have their numbers then."""
    i: cython.int
    count: cython.int = len(tape.slots)
    params: cython.Py_ssize_t = len(tape.params)
    fits: cython.bint = True
    if call.op is not op:
        return False
    for i in range(op.n_args):
        item = cython.cast(object, slots[i])
        noted = call.values[i]
        if call.kinds[i] == CONSTANT:
            if item is not noted and (
                isinstance(item, Tensor) or not same_constant(item, noted)
            ):
                fits = False
                break
        elif call.kinds[i] == TENSOR:
            if not same_tensor(tape, cython.cast(Value, noted), item):
                fits = False
                break
        elif call.kinds[i] == NUMBER:
            if type(item) is not float:
                fits = False
                break
            tape.params.append(item)
        elif not same_list(tape, noted, item):
            fits = False
            break
    if not fits:
        tape.drop(count)
        del tape.params[params:]
    return fits


# -- branches --------------------------------------------------------------------------


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def mixed(key: uint64_t, item: uint64_t) -> uint64_t:
    key = (key ^ item) * _PRIME
    return key ^ (key >> 32)


@cython.cfunc
@cython.exceptval(check=False)
def tensor_key(key: uint64_t, t: Tensor) -> uint64_t:
    """A hash of what `Value.fits` compares."""
    d: cython.int
    key = mixed(key, cython.cast(uintptr_t, cython.cast(cython.p_void, t.dtype_)))
    key = mixed(key, (t.keys & DEFERRED) + cython.cast(uint64_t, t.ndim_))
    for d in range(t.ndim_):
        key = mixed(mixed(key, t.sizes[d]), t.strides[d])
    return mixed(key, t.offset)


@cython.cfunc
@cython.exceptval(check=False)
def value_key(key: uint64_t, v: Value) -> uint64_t:
    """The hash of a tensor that a window fits."""
    d: cython.int
    key = mixed(key, cython.cast(uintptr_t, cython.cast(cython.p_void, v.dtype)))
    key = mixed(key, v.deferred + cython.cast(uint64_t, v.ndim))
    for d in range(v.ndim):
        key = mixed(mixed(key, v.sizes_[d]), v.strides_[d])
    return mixed(key, v.offset)


@cython.cfunc
@cython.exceptval(0, check=True)
def item_key(key: uint64_t, item: object, varies: cython.bint) -> uint64_t:
    """A hash that is the same for all arguments that `same_constant` takes for one.

    Args:
        varies: whether a float may be another one.
    """
    if isinstance(item, Tensor):
        return tensor_key(key, cython.cast(Tensor, item))
    if isinstance(item, Value):
        return value_key(key, cython.cast(Value, item))
    if isinstance(item, (list, tuple)):
        key = mixed(key, len(item))
        for one in item:
            key = item_key(key, one, False)
        return key
    kind = type(item)
    if kind is int or kind is bool or kind is str or (kind is float and not varies):
        return mixed(key, cython.cast(uint64_t, cython.cast(int64_t, hash(item))))
    return mixed(key, cython.cast(uintptr_t, cython.cast(cython.p_void, kind)))


@cython.cfunc
@cython.exceptval(-1, check=False)
def set_key(
    tape: Tape, op: Operator, slots: pp_object, switches: cython.int
) -> cython.int:
    """Sets the tape's hashes of a call: of all that it is, and of its tensors alone.

    They are equal for calls that match one branch.
    """
    i: cython.int
    varies: cython.bint = tape.varies and floats_vary(op)
    look: uint64_t = cython.cast(uintptr_t, cython.cast(cython.p_void, op))
    key: uint64_t = mixed(look, cython.cast(uint64_t, switches))
    for i in range(op.n_args):
        item = cython.cast(object, slots[i])
        if isinstance(item, Tensor):
            look = tensor_key(look, cython.cast(Tensor, item))
        elif isinstance(item, Value):
            look = value_key(look, cython.cast(Value, item))
        else:
            key = item_key(
                key, item, varies and type(item) is float and not is_static(op, i)
            )
    tape.look = look
    tape.key = mixed(key, look)
    return 0


@cython.cfunc
def branch_of(tape: Tape, op: Operator, slots: pp_object, switches: cython.int) -> Call:
    """The branch at this place that a call is; None where there is none."""
    parent: Call = tape.at
    call: Call
    found: list
    set_key(tape, op, slots, switches)
    found = parent.branches.get(tape.key)
    if found is None:
        return None
    for call in found:
        if call.switches == switches and matches(tape, call, op, slots):
            mark_taken(parent, call)
            return call
    return None


@cython.cfunc
@cython.exceptval(-1, check=False)
def mark_taken(parent: Call, call: Call) -> cython.int:
    """Has a branch be the one that was taken last, in place of another."""
    parent.ticks += 1
    if parent.last is not None:
        parent.last.used = parent.ticks
    call.used = parent.ticks
    parent.last = call
    return 0


@cython.cfunc
def oldest_of(parent: Call) -> Call:
    """The branch that was taken least recently."""
    one: Call
    oldest: Call = None
    for one in parent.children:
        if one is not parent.last and (oldest is None or one.used < oldest.used):
            oldest = one
    return oldest


@cython.cfunc
@cython.exceptval(-1, check=False)
def add_branch(tape: Tape, parent: Call, call: Call) -> cython.int:
    """Keeps a noted call; where there are too many, the least recently taken one goes."""
    oldest: Call
    if len(parent.children) >= tape.owner.most_branches():
        oldest = oldest_of(parent)
        parent.children.remove(oldest)
        parent.branches[oldest.key].remove(oldest)
        if not parent.branches[oldest.key]:
            del parent.branches[oldest.key]
        tape.owner.evicted(oldest)
    append_branch(parent, call)
    tape.owner.noted(call)
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def append_branch(parent: Call, call: Call) -> cython.int:
    call.parent = parent
    call.depth = parent.depth + 1
    parent.children.append(call)
    parent.branches.setdefault(call.key, []).append(call)
    mark_taken(parent, call)
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def chain_branch(tape: Tape, parent: Call, call: Call) -> cython.int:
    """Has a call that was not followed be the only one after another."""
    slots = cython.declare(p_object[24])
    i: cython.int
    for i in range(call.op.n_args):
        item = _ANY_FLOAT if call.kinds[i] == NUMBER else call.values[i]
        slots[i] = cython.cast(p_object, item)
    set_key(tape, call.op, slots, call.switches)
    call.key, call.look = tape.key, tape.look
    return append_branch(parent, call)


@cython.cfunc
@cython.exceptval(-1, check=False)
def count_of(tape: Tape, op: Operator) -> cython.int:
    """With how many different arguments beside tensors an operator was noted at one place."""
    found: cython.int = 0
    child: Call
    for child in cython.cast(Call, tape.at).children:
        found += child.op is op and child.look == tape.look
    return found


@cython.cfunc
@cython.exceptval(-1, check=False)
def has_room(tape: Tape) -> cython.bint:
    """Whether this place may have one more branch, if in place of one that is idle."""
    parent: Call = tape.at
    count: cython.longlong = len(parent.children)
    if count < tape.owner.most_branches():
        return True
    return parent.ticks - oldest_of(parent).used >= _IDLE * count


@cython.cfunc
@cython.exceptval(-1, check=False)
def differs_by_sizes(
    tape: Tape, call: Call, op: Operator, slots: pp_object
) -> cython.bint:
    """Whether a call is a noted one but for sizes: of tensors, or as whole numbers."""
    i: cython.int
    d: cython.int
    v: Value
    t: Tensor
    other: cython.bint = False
    if call.op is not op:
        return False
    for i in range(op.n_args):
        item = cython.cast(object, slots[i])
        if call.kinds[i] == TENSOR:
            if not isinstance(item, Tensor):
                return False
            v, t = call.values[i], item
            if t.ndim_ != v.ndim or t.dtype_ is not v.dtype:
                return False
            for d in range(v.ndim):
                other = other or t.sizes[d] != v.sizes_[d]
        elif call.kinds[i] == CONSTANT:
            if type(item) is int and type(call.values[i]) is int:
                other = other or item != call.values[i]
            elif isinstance(item, Tensor):
                return False
    return other


@cython.cfunc
@cython.exceptval(-1, check=False)
def waits_as_another_size(tape: Tape, op: Operator, slots: pp_object) -> cython.bint:
    """Whether a call differs by sizes from a noted one, and has not come often enough.

    Noting and planning take a hundred calls of a small program; of sizes that come once or
    a few times, as those of a cache that grows, none would pay.
    """
    parent: Call = tape.at
    call: Call
    times: cython.longlong
    owner = tape.owner
    if not len(parent.children) or not owner.lets_sizes_wait():
        return False
    known = None if parent.seen is None else parent.seen.get(tape.key)
    if known is None:
        call = parent.last
        if not differs_by_sizes(tape, call, op, slots) or owner.is_large(call):
            return False
        if parent.seen is None or len(parent.seen) >= _SEEN:
            parent.seen = {}
        if not has_programs(call):
            parent.seen[call.key] = 1
        owner.branched(
            parent, op, [cython.cast(object, slots[i]) for i in range(op.n_args)]
        )
        known = 0
    times = known
    if 0 <= times < owner.calls_of_waiting_sizes():
        parent.seen[tape.key] = times + 1
        return True
    if times >= 0:
        parent.seen[tape.key] = _OFTEN
    return False


@cython.cfunc
@cython.exceptval(-1, check=False)
def has_programs(call: Call) -> cython.bint:
    """Whether a program was made of the path through a call that was taken last."""
    while call is not None:
        if call.programs:
            return True
        call = call.last_taken
    return False


@cython.cfunc
@cython.exceptval(-1, check=False)
def waits_with_others(tape: Tape, parent: Call, call: Call) -> cython.bint:
    """Whether a noted call waits as its other sizes do: they came before it had a program."""
    known = parent.seen.get(call.key)
    if known is None:
        return False
    times: cython.longlong = known
    if 0 <= times < tape.owner.calls_of_waiting_sizes():
        parent.seen[call.key] = times + 1
        return True
    parent.seen.pop(call.key, None)  # another thread may have done so
    return False


@cython.cfunc
@cython.exceptval(-1, check=False)
def is_admitted(tape: Tape, op: Operator, slots: pp_object) -> cython.int:
    """Whether a call that no branch has is noted: the first ones are, others the second time.

    What comes once is not worth a program: where shapes are many, they have to show that
    they come again. Where all places are taken, one has to have been idle for long: shapes
    that come in turn would else drive each other out, each time. Other sizes of a small
    program wait longer.

    Returns:
        0 where it is not; 2 where its owner was told of the branch before.
    """
    parent: Call = tape.at
    key: uint64_t = tape.key
    count: cython.longlong = len(parent.children)
    if waits_as_another_size(tape, op, slots):
        return 0
    known = None if parent.seen is None else parent.seen.get(key)
    if count >= tape.owner.first_branches():
        parent.ticks += 1
        if known is None:
            if parent.seen is None or len(parent.seen) >= _SEEN:
                parent.seen = {}
            parent.seen[key] = _ONCE
            return 0
        if not has_room(tape):
            return 0
    if known is None:
        return 1
    parent.seen.pop(key, None)
    return 2 if known == _OFTEN else 1
