"""Records a module's call with its sizes as numbers that know where they come from.

While a `Recording` is the thread's function mode, every function of tensors that Python
calls is recorded with what it is given, and sizes are `TracedInt`s: what Python computes of
them is recorded, too, and what it asks of them is a *guard*, an answer that has to be the same
for the record to hold. So it says what Python does for each size that the guards let
pass; `rushlight.graph.dynamic_replay` does it again without Python.
"""

import operator
import sys

from rushlight.core import logs
from rushlight.core.device import Device
from rushlight.core.dtype import DType
from rushlight.core.layout import Layout, MemoryFormat, Size
from rushlight.core.tensor import Tensor
from rushlight.dispatch.torch_function import TorchFunctionMode
from rushlight.graph.dynamic_trace import (
    ARGUMENTS_MOST,
    CALL,
    COMPUTE,
    FACT,
    GUARD,
    INPUT,
    KNOWN,
    MADE,
    PLAIN,
    REGISTER,
    SEQUENCE,
    SIZES,
    SLICE,
    TABLE,
    writes_to,
)
from rushlight.graph.plain_code import LOOKS

_FIXED = (type(None), bool, int, float, complex, str, DType, Device, Layout)
_FIXED += (MemoryFormat,)


class Refusal(Exception):
    """A call does more, or hangs on more, than is recorded."""


def _facts():
    """The functions that say how a tensor looks: asked again, and compared."""
    found = [getattr(Tensor, name) for name in LOOKS]
    return {one if callable(one) else one.__get__ for one in found}


class TracedArgument(int):
    """What functions of tensors are called with for a traced number.

    Attributes:
        number: the `TracedInt`.
    """


class TracedInt:
    """An integer of a call: a size, a number among its arguments, or computed of such.

    Args:
        recording: what it belongs to.
        number: of its register there.
        value: what it is in the call that is recorded.
    """

    __slots__ = ("recording", "number", "value")

    def __init__(self, recording, number, value):
        self.recording, self.number, self.value = recording, number, value

    @property
    def __class__(self):
        return int  # as far as `isinstance` asks

    def _as_argument(self):
        """What functions of tensors are called with: a number that is known as this one."""
        made = TracedArgument(self.value)
        made.number = self
        return made

    def __index__(self):
        return self.recording.fixed(self)

    __int__ = __trunc__ = __floor__ = __ceil__ = __index__

    def __float__(self):
        return float(self.__index__())

    def __bool__(self):
        return self.recording.decided(operator.ne, self, 0)

    def __hash__(self):
        return hash(self.__index__())

    def __repr__(self):
        return repr(self.__index__())

    def __format__(self, spec):
        return format(self.__index__(), spec)

    def __round__(self, digits=0):
        return round(self.__index__(), digits)

    def __pos__(self):
        return self

    def __neg__(self):
        return self.recording.computed(operator.sub, 0, self)

    def __abs__(self):
        return -self if self < 0 else self

    def __divmod__(self, other):
        return self // other, self % other

    def __rdivmod__(self, other):
        return other // self, other % self

    def __getattr__(self, name):
        return getattr(self.__index__(), name)


def _computing(function, swapped):
    def method(self, other):
        pair = (other, self) if swapped else (self, other)
        return self.recording.computed(function, *pair)

    return method


def _fixing(function, swapped):
    """An operation that fixes its number."""

    def method(self, other):
        number = self.__index__()
        return function(other, number) if swapped else function(number, other)

    return method


def _deciding(function, swapped):
    def method(self, other):
        return self.recording.decided(function, self, other)

    return method


def _answer(make, functions, swapped=(False, True)):
    """Has traced numbers answer Python's operators."""
    for function in functions:
        for swap in swapped:
            name = function.__name__.rstrip("_")
            method = make(function, swap)
            setattr(TracedInt, f"__{'r' if swap else ''}{name}__", method)


_whole = operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod
_fixed = operator.pow, operator.truediv, operator.lshift, operator.rshift
_bits = operator.and_, operator.or_, operator.xor
_asked = operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge
_answer(_computing, _whole)
_answer(_fixing, _fixed + _bits)
_answer(_deciding, _asked, (False,))


def is_traced(item):
    """Whether something is a traced number."""
    return type(item) is TracedInt


def untraced(item):
    """The same with plain numbers: of a traced number, or of what holds such."""
    kind = type(item)
    if kind is TracedInt or kind is TracedArgument:
        return item.value if kind is TracedInt else int(item)
    if kind is list or kind is tuple or kind is Size:
        if not all([type(one) is int for one in item]):
            return kind([untraced(one) for one in item])
    elif kind is dict:
        return {name: untraced(one) for name, one in item.items()}
    elif kind is slice:
        return slice(*[untraced(one) for one in (item.start, item.stop, item.step)])
    return item


class Recording(TorchFunctionMode):
    """Records what Python calls, as steps of `rushlight.graph.dynamic_trace`.

    Attributes:
        steps: what was recorded.
        refusal: why these say too little; or None.
        draws: whether random numbers were drawn.
        result: what the call gives, as a source; see `source_of`.
        case: the sizes of the arguments, and the integers among them.

    Args:
        known: the tensors that the call is given: the module's, then its arguments'.
        exact: how many of them are the module's, whose sizes are compared.
        traced: whether sizes are traced; else they are recorded as they are.
        profile: the profile function that sees what is called beside these.
        thread: gives what operators run under, and the count of nodes that were made.
        drawn: gives another answer once random numbers were drawn.
    """

    def __init__(self, known, exact, traced, profile, thread, drawn):
        self.profile = profile
        self.known, self.exact, self.traced = known, exact, traced
        self.thread, self.drawn = thread, drawn
        self.steps, self.held, self.registers = [], [], 0
        self.numbers = {id(one): (KNOWN, at) for at, one in enumerate(known)}
        self.refusal, self.draws, self.result = None, False, None
        self.closed = self.writes = False
        self.inputs = {}
        self.under, self.before = thread(), drawn()

    # -- numbers -----------------------------------------------------------------------

    def refuse(self, why):
        """Nothing is made of what was recorded."""
        self.refusal = self.refusal or why

    def register(self, value):
        """A new traced number."""
        self.registers += 1
        return TracedInt(self, self.registers - 1, value)

    def argument(self, item, path):
        """An argument of the call, with its integers as traced numbers."""
        if type(item) is int:
            self.inputs[path] = item
            if not self.traced:
                return item
            made = self.register(item)
            self.steps.append((INPUT, made.number, path))
            return made
        if type(item) is tuple:
            return tuple(
                [self.argument(one, (*path, at)) for at, one in enumerate(item)]
            )
        return item

    def fixed(self, number):
        """What a number is, which it has to be."""
        if not self.closed:
            logs.recompiles.say(f"a size has to be {number.value}", line=True)
        self.decided(operator.eq, number, number.value)
        return number.value

    def operand(self, item):
        """What a step computes with."""
        if is_traced(item):
            return REGISTER, item.number
        return PLAIN, item

    def computed(self, function, one, other):
        """A number that is computed of others."""
        pair = untraced(one), untraced(other)
        if not all(type(item) in (int, bool) for item in pair):
            for item in (one, other):
                if is_traced(item):
                    self.fixed(item)
            if not all(isinstance(item, (int, float, complex)) for item in pair):
                return NotImplemented
            return function(*pair)
        value = function(*pair)
        if self.closed or self.refusal:
            return value
        made = self.register(value)
        self.steps.append(
            (COMPUTE, made.number, function, self.operand(one), self.operand(other))
        )
        return made

    def decided(self, function, one, other):
        """The answer to a question about numbers, which has to be the same."""
        pair = untraced(one), untraced(other)
        if not all(isinstance(item, (int, float)) for item in pair):
            return NotImplemented
        answer = function(*pair)
        if not self.closed and not self.refusal:
            operands = self.operand(one), self.operand(other)
            self.steps.append((GUARD, function, *operands, answer))
        return answer

    # -- calls -------------------------------------------------------------------------

    def source_of(self, item):
        """Where something that a function is given comes from: a kind and what it needs.

        Args:
            item: an argument, or what the whole call gives.

        Raises:
            Refusal: nobody knows.
        """
        if isinstance(item, Tensor):
            found = self.numbers.get(id(item))
            if found is None:
                raise Refusal("a tensor that no call gave")
            return found
        if is_traced(item):
            return REGISTER, item.number
        kind = type(item)
        if kind is TracedArgument:
            return REGISTER, item.number.number
        if kind in (tuple, list, Size):
            parts = [self.source_of(one) for one in item]
            if kind is not list and all(part[0] == PLAIN for part in parts):
                return PLAIN, item
            return SEQUENCE, (kind, parts)
        if kind is slice:
            parts = item.start, item.stop, item.step
            return SLICE, [self.source_of(one) for one in parts]
        if kind is dict:
            if not all(type(name) in (str, int) for name in item):
                raise Refusal("a table")
            return TABLE, {name: self.source_of(one) for name, one in item.items()}
        if kind in _FIXED or item is Ellipsis:
            return PLAIN, item
        raise Refusal(f"an argument of {kind}")

    def sizes_of(self, tensor):
        """The sizes of a tensor."""
        sizes = tensor.shape
        kind, number = self.source_of(tensor)
        if kind == KNOWN and number < self.exact:
            return sizes
        if not self.traced:
            self.steps.append((SIZES, 0, kind, number, tuple(sizes)))
            return sizes
        first = self.registers
        made = Size([self.register(value) for value in sizes])
        self.steps.append((SIZES, first, kind, number, len(sizes)))
        return made

    def asked_for_sizes(self, func, args):
        """What a function gives that looks at sizes alone; NotImplemented if it does more."""
        if func == _SHAPE:
            return self.sizes_of(args[0])
        if func is Tensor.size:
            sizes = self.sizes_of(args[0])
            return sizes if len(args) == 1 or args[1] is None else sizes[args[1]]
        if func is Tensor.numel or func is Tensor.nelement:
            count = 1
            for size in self.sizes_of(args[0]):
                count = count * size
            return count
        if func is Tensor.__len__ and args[0].dim():
            return operator.index(self.sizes_of(args[0])[0])
        return NotImplemented

    def __torch_function__(self, func, types, args=(), kwargs=None):
        sys.setprofile(None)  # what the function does it does again
        try:
            return self.called(func, args, kwargs or {})
        finally:
            sys.setprofile(self.profile)

    def called(self, func, args, kwargs):
        """What a function gives, which is recorded with all that it is given."""
        if self.closed or self.refusal:
            return func(*untraced(args), **untraced(kwargs))
        if self.thread() != self.under:
            self.refuse("what operators run under changed")
        try:
            if not kwargs and args and isinstance(args[0], Tensor):
                answer = self.asked_for_sizes(func, args)
                if answer is not NotImplemented:
                    return answer
            sources = [self.source_of(one) for one in args]
            named = {name: self.source_of(one) for name, one in kwargs.items()}
            if len(args) + len(kwargs) > ARGUMENTS_MOST:
                raise Refusal("many arguments")
        except Refusal as why:
            self.refuse(str(why))
            return func(*untraced(args), **untraced(kwargs))
        writes = writes_to(self.known)
        result = func(*untraced(args), **untraced(kwargs))
        self.under = self.thread()
        if writes_to(self.known) != writes:
            self.writes = True
            self.refuse("a write to what was there before")
        if func in _FACTS:
            self.steps.append((FACT, func, sources, named, result))
            return result
        if not self.draws:
            self.draws = self.drawn() != self.before
        try:
            step = (CALL, func, sources, named, self.outputs(result))
        except Refusal as why:
            self.refuse(str(why))
        else:
            self.steps.append(step)
        return result

    def outputs(self, result):
        """What a call gave: whether it is a tensor alone, and for each the one that it is."""
        lone = isinstance(result, Tensor)
        parts = (result,) if lone else () if result is None else result
        if not isinstance(parts, (tuple, list)):
            raise Refusal(f"a result of {type(result)}")
        found = []
        for one in parts:
            if one is None:
                found.append((PLAIN, None))
            elif isinstance(one, Tensor):
                found.append(self.numbers.setdefault(id(one), (MADE, len(self.held))))
            else:
                raise Refusal("a result among tensors")
            self.held.append(one)
        return None if result is None else type(result), lone, found

    def finish(self, result):
        """The call is over.

        Args:
            result: what it gave.

        Returns:
            The same without traced numbers.
        """
        if self.thread() != self.under:
            self.refuse("what operators run under changed")
        plain = untraced(result)
        if not self.refusal:
            try:
                self.result = self.source_of(result)
            except Refusal as why:
                self.refuse(str(why))
        self.closed = True
        self.held, self.known, self.numbers = [], [], {}
        return plain


_SHAPE = vars(Tensor)["shape"].__get__
_FACTS = _facts()


# -- whether a record says what Python does ---------------------------------------------------


class _Unlike(Exception):
    """A record does not hold for a call."""


def agrees(traced, plain):
    """Whether a traced record gives the plain one of a call at other sizes.

    Args:
        traced: a record with numbers as registers.
        plain: one of a call without.

    Returns:
        None where the guards refuse the call, so that nothing is shown.
    """
    values: list = [None] * traced.registers
    rest = iter(plain.steps)
    try:
        for step in traced.steps:
            if not _step_agrees(step, rest, values, plain.inputs):
                return False
    except _Unlike:
        return None
    if next(rest, None) is not None:
        return False
    return _source_agrees(traced.result, plain.result, values)


def _step_agrees(step, rest, values, inputs):
    """Whether a step is the next of the plain ones; takes note of its numbers."""
    kind = step[0]
    if kind == INPUT:
        values[step[1]] = inputs[step[2]]
        return True
    if kind in (COMPUTE, GUARD):
        at = 3 if kind == COMPUTE else 2
        pair = [
            values[what] if where == REGISTER else what
            for where, what in step[at : at + 2]
        ]
        if kind == COMPUTE:
            values[step[1]] = step[2](*pair)
        elif step[1](*pair) is not step[4]:
            raise _Unlike
        return True
    other = next(rest, None)
    if other is None or other[0] != kind:
        return False
    if kind == SIZES:
        for at, size in enumerate(other[4]):
            values[step[1] + at] = size
        return step[2:4] == other[2:4] and step[4] == len(other[4])
    like = (
        step[1] == other[1]
        and _source_agrees(
            (SEQUENCE, (list, step[2])), (SEQUENCE, (list, other[2])), values
        )
        and _source_agrees((TABLE, step[3]), (TABLE, other[3]), values)
    )
    if like and kind == FACT and step[4] != other[4]:
        raise _Unlike
    return like and step[4] == other[4]


def _source_agrees(one, other, values):
    """Whether a source is a plain one, with numbers in place of registers."""
    kind, what = one
    if kind == REGISTER:
        return other[0] == PLAIN and type(other[1]) is int and other[1] == values[what]
    if kind == SEQUENCE and other[0] == PLAIN:  # registers were all that it had
        if type(other[1]) is not what[0]:
            return False
        parts = [(PLAIN, item) for item in other[1]]
        return _parts_agree(what[1], parts, values)
    if kind != other[0]:
        return False
    if kind == SEQUENCE:
        return what[0] is other[1][0] and _parts_agree(what[1], other[1][1], values)
    if kind == SLICE:
        return _parts_agree(what, other[1], values)
    if kind == TABLE:
        if list(what) != list(other[1]):
            return False
        return _parts_agree(what.values(), other[1].values(), values)
    if kind == PLAIN:
        return type(what) is type(other[1]) and (what is other[1] or what == other[1])
    return what == other[1]


def _parts_agree(ones, others, values):
    return len(ones) == len(others) and all(
        [_source_agrees(one, other, values) for one, other in zip(ones, others)]
    )
