"""Tensor expressions: what is computed, apart from the loops that compute it.

>>> x = placeholder((4, 8), name="x")
>>> k = reduce_axis((0, 8), name="k")
>>> y = compute((4,), lambda i: sum(x[i, k], axis=k), name="y")
>>> y
y[i] = sum(x[i, k], k)
"""

import inspect

from rushlight.codegen.emit import python
from rushlight.ir import expr as ir
from rushlight.ir.rewrite import map_expr
from rushlight.tensor_expressions.bounds import Forms, extremes

IDENTITIES = {"add": 0, "mul": 1, "max": float("-inf"), "min": float("inf")}
REDUCTION_NAMES = {"add": "sum", "mul": "prod", "max": "max", "min": "min"}


class Axis(ir.Var):
    """An index that runs over ``range(extent)``; summed over if ``reduce``."""

    __slots__ = ("extent", "reduce")

    def __init__(self, name, extent, reduce=False):
        super().__init__(name, ir.i64)
        self.extent, self.reduce = extent, reduce


class Size(ir.Var):
    """A size that the arrays of a call tell."""

    __slots__ = ()


def var(name="n") -> Size:
    """A size that is open until the built function is called; see `placeholder`.

    >>> n = var("n")
    >>> x = placeholder((n, 4), name="x")
    >>> compute((n,), lambda i: x[i, 0] * 2.0, name="y")
    y[i] = x[i, 0] * 2.0
    """
    return Size(name, ir.i64)


class Read(ir.Expr):
    """One element of a tensor, at index expressions."""

    __slots__ = ("tensor",)

    def __init__(self, tensor, *indices):
        self.tensor, self.args, self.type = tensor, indices, tensor.type

    @property
    def attributes(self):
        return (self.tensor,)

    @property
    def indices(self):
        """The index of each dimension."""
        return self.args[: len(self.tensor.shape)]


class GuardedRead(Read):
    """An element that is read where a condition, the last argument, holds."""

    __slots__ = ()


class Reduce(ir.Expr):
    """A value combined over reduction axes, which the rest of a computation goes on with."""

    __slots__ = ("axes", "op")

    def __init__(self, op, axes, value):
        self.op, self.axes, self.args, self.type = op, axes, (value,), value.type

    @property
    def attributes(self):
        return self.op, self.axes

    @property
    def identity(self):
        """The value that changes nothing: where an accumulation starts."""
        value = IDENTITIES[self.op]
        if self.type.is_float or self.op in ("add", "mul"):
            return ir.Const(self.type, value)
        from rushlight.codegen.frontend.loop_words import bounds

        return ir.Const(self.type, bounds(self.type)[self.op == "min"])


class Several(ir.Expr):
    """What one computation makes: a value for each of several tensors of one shape."""

    __slots__ = ()

    def __init__(self, *values):
        self.args, self.type = values, values[0].type


class Tensor:
    """An array: given from outside, or computed element by element.

    Attributes:
        primary: the tensor whose computation this one is a result of; by default itself.
        results: of that computation, the first of which is the primary one.
    """

    strides: tuple | None = None  # of one that is given and not dense

    def __init__(self, name, shape, type, axes=(), body=None, primary=None):
        self.name, self.shape, self.type = name, sizes_of(name, shape), type
        self.axis, self.body = tuple(axes), body
        self.primary, self.results = primary or self, (self,)
        if isinstance(body, Several):
            more = enumerate(body.args[1:], 1)
            others = [
                Tensor(f"{name}_{n}", shape, value.type, axes, None, self)
                for n, value in more
            ]
            self.results = (self, *others)

    @property
    def is_computed(self):
        """Whether no caller gives it."""
        return self.primary.body is not None

    @property
    def dtype(self):
        """The name of the element type."""
        return self.type.name

    @property
    def reduce_axis(self):
        """The axes that the computation sums over."""
        return axes_of(reductions(self.body)) if self.body is not None else ()

    def __getitem__(self, indices):
        indices = indices if isinstance(indices, tuple) else (indices,)
        if len(indices) != len(self.shape):
            raise IndexError(
                f"{self.name} has {len(self.shape)} dimensions, got {len(indices)} "
                "indices"
            )
        return Read(self, *map(as_index, indices))

    def __call__(self, *indices):
        return self[indices]

    def __repr__(self):
        if self.body is None:
            sizes = ", ".join(map(str, self.shape))
            return f"{self.name}: {self.type}[{sizes}]"
        names = ", ".join(axis.name for axis in self.axis)
        return f"{self.name}[{names}] = {self.body!r}"


def sizes_of(name, shape):
    """A shape as a tuple.

    Raises:
        TypeError: a size is no whole number.
        ValueError: one is below zero.
    """
    sizes = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    for size in sizes:
        if isinstance(size, ir.Expr) and size.type.is_int:
            continue
        if isinstance(size, (bool, float)) or not hasattr(size, "__index__"):
            raise TypeError(f"{name} has a size of {size!r}, which is no whole number")
        if size < 0:
            raise ValueError(f"{name} has a size of {size}")
    return tuple(s if isinstance(s, ir.Expr) else s.__index__() for s in sizes)


def placeholder(shape, dtype="float32", name="placeholder", strides=None) -> Tensor:
    """A tensor that the caller of the built function passes in.

    Args:
        shape: its sizes, numbers or what `var` gave; the arrays of a call tell the latter.
        dtype: of its elements.
        name: what it is called in loops and errors.
        strides: how many elements apart neighbours along each dimension lie, if the array
            is not dense; numbers, or what `var` gave.

    Raises:
        TypeError: a size is no whole number.
        ValueError: there is no such dtype, a size is below zero, or there are strides of
            more, or fewer, dimensions.
    """
    if dtype not in ir.WIDTHS:
        raise ValueError(
            f"placeholder: {name} has a dtype {dtype!r}; there are {', '.join(ir.WIDTHS)}"
        )
    tensor = Tensor(name, shape, ir.Type(dtype))
    if strides is not None:
        tensor.strides = tuple(strides)
        if len(tensor.strides) != len(tensor.shape):
            raise ValueError(
                f"placeholder: {name} has {len(tensor.shape)} dimensions and "
                f"{len(tensor.strides)} strides"
            )
    return tensor


def reduce_axis(bounds, name="k") -> Axis:
    """An axis to sum over, from 0 to ``bounds[1]``.

    Raises:
        ValueError: the range doesn't start at 0.
    """
    start, stop = bounds
    if start != 0:
        raise ValueError(
            f"reduce_axis: {name} starts at {start}; ranges start at 0\n  remedy: an axis "
            f"of {stop - start} that is read at {name} + {start}"
        )
    return Axis(name, stop, reduce=True)


def as_index(index):
    """An index as an expression of 64 bits."""
    index = ir.as_expr(index, ir.i64)
    if not index.type.is_int:
        raise TypeError(f"an index is an integer, not {index.type}: {index!r}")
    return ir.cast(ir.i64, index)


def compute(shape, function, name="compute") -> Tensor | tuple[Tensor, ...]:
    """A tensor whose element at ``i, j, ...`` is ``function(i, j, ...)``.

    Args:
        shape: its sizes.
        function: takes an index for each dimension; returns an expression, or a tuple of
            them for as many tensors, which are computed together.
        name: what it is called in loops and errors.

    Raises:
        TypeError: the function doesn't take one index for each dimension.
        ValueError: it reduces over what is reduced already, or goes by an axis that is
            neither its own nor reduced over.
        IndexError: it reads what may lie outside of a tensor. Indices that are data
            themselves are looked at when the kernel runs.

    >>> x = placeholder((4,), name="x")
    >>> compute((4,), lambda i: x[i + 1], name="y")
    Traceback (most recent call last):
    IndexError: y reads x[i + 1]: dimension 0 has size 4 and is read at 1 to 4
      remedy: te.if_then_else(condition, x[...], other), where the condition bounds the index
    """
    shape = sizes_of(name, shape)
    rows = inspect.signature(function).parameters.values()
    names = [row.name for row in rows if row.kind != row.VAR_POSITIONAL]
    if len(names) < len(rows):  # as many as there are
        names += [f"i{d}" for d in range(len(names), len(shape))]
    if len(names) != len(shape):
        raise TypeError(
            f"compute: {name} has {len(shape)} dimensions, but its function "
            f"takes {len(names)} indices"
        )
    axes = [Axis(label, extent) for label, extent in zip(names, shape)]
    body = function(*axes)
    several = isinstance(body, tuple) and body
    for value in body if several else (body,):
        if not isinstance(value, ir.Expr):
            raise TypeError(f"compute: {name} is {value!r}, not an expression")
    body = Several(*body) if several else body
    check_reductions(name, body)
    check_axes(name, body, axes)
    guarded(name, body)
    tensor = Tensor(name, shape, body.type, axes, body)
    return tensor.results if several else tensor


def check_reductions(name, body):
    """Refuses reductions of reductions."""
    for item in reductions(body):
        if any(map(reductions, item.args)):
            raise ValueError(
                f"compute: {name} reduces {item!r}, which is reduced inside already\n"
                "  remedy: give the inner reduction a te.compute of its own"
            )
        for axis in item.axes:
            if not isinstance(axis, Axis) or not axis.reduce:
                raise ValueError(
                    f"compute: {name} reduces over {axis!r}, which is no te.reduce_axis"
                )


def check_axes(name, body, axes):
    """Refuses axes that nothing gives turns to."""
    known, seen = set(map(id, axes)), set()

    def visit(node, inside):
        key = id(node), inside
        if key in seen:
            return
        seen.add(key)
        if isinstance(node, Reduce):
            inside = inside | frozenset(map(id, node.axes))
        if isinstance(node, Axis) and id(node) not in known | inside:
            why = "another tensor's axis\n  remedy: the indices that its function is given"
            if node.reduce:
                why = f"not reduced over there\n  remedy: te.sum(..., axis={node.name})"
            raise ValueError(f"compute: {name} goes by {node.name}, which is {why}")
        for arg in node.args:
            visit(arg, inside)

    visit(body, frozenset())


def _reduction(op, doc):
    def function(value, axis):
        axes = tuple(axis) if isinstance(axis, (list, tuple)) else (axis,)
        return Reduce(op, axes, value)

    function.__name__ = function.__qualname__ = REDUCTION_NAMES[op]
    function.__doc__ = doc
    return function


sum = _reduction("add", "The sum of a value over reduction axes.")
prod = _reduction("mul", "The product of a value over reduction axes.")
max = _reduction("max", "The largest value over reduction axes; NaN wins.")
min = _reduction("min", "The smallest value over reduction axes; NaN wins.")


def reductions(e):
    """Every `Reduce` of an expression that is inside no other, once each."""
    found, seen = [], set()

    def visit(node):
        if id(node) in seen:
            return
        seen.add(id(node))
        if isinstance(node, Reduce):
            found.append(node)
            return
        for arg in node.args:
            visit(arg)

    visit(e)
    return found


def axes_of(found):
    """The axes of reductions, once each, in order."""
    return tuple({id(axis): axis for item in found for axis in item.axes}.values())


def is_data(e):
    """Whether an expression reads a tensor."""
    return isinstance(e, Read) or any(map(is_data, e.args))


def guarded(name, body, strict=True):
    """A body whose reads ask first whether their indices are within their tensors.

    A read that is known to be within is left as it is. One that is so where the
    conditions of the selects around it hold becomes a `GuardedRead`; one at an index that
    is data is refused while the kernel runs where it lies outside.

    Args:
        strict: whether a read that is not known to be within is an error, rather than
            looked at while the kernel runs, too.

    Raises:
        IndexError: a read is known not to be within, or not known to be.
    """
    return _Guards(name, strict).rewritten(body, ())


class _Guards:
    """The conditions under which the reads of one body happen."""

    def __init__(self, name, strict):
        self.name, self.strict = name, strict
        self.forms, self.memo = Forms(), {}

    def rewritten(self, e, conditions):
        """An expression that is evaluated where pairs of condition and truth agree."""
        key = id(e), tuple((id(condition), truth) for condition, truth in conditions)
        if key not in self.memo:
            self.memo[key] = self.fresh(e, conditions), e
        return self.memo[key][0]

    def fresh(self, e, conditions):
        if isinstance(e, ir.Select):
            condition, yes, no = e.args
            chosen = self.rewritten(condition, conditions)
            args = (
                chosen,
                self.rewritten(yes, (*conditions, (chosen, True))),
                self.rewritten(no, (*conditions, (chosen, False))),
            )
        else:
            args = tuple(self.rewritten(arg, conditions) for arg in e.args)
        if any(new is not old for new, old in zip(args, e.args)):
            e = e.rebuild(args)
        return self.read(e, conditions) if type(e) is Read else e

    def read(self, e, conditions):
        """A read with what it has to ask."""
        sizes = list(enumerate(zip(e.args, e.tensor.shape)))
        open_ones = [
            (d, at, size) for d, (at, size) in sizes if not self.forms.within(at, size)
        ]
        if not open_ones:
            return e
        facts = [form for item in conditions for form in self.forms.holds(*item)]
        asked, test = [], None
        for d, at, size in open_ones:
            if self.forms.within(at, size, facts):
                continue
            if self.strict and not is_data(at):
                raise IndexError(self.outside(e, d, at, size))
            asked += [at >= 0, at < size]
        for condition, truth in conditions:
            part = condition if truth else ~condition
            test = part if test is None else test & part
        wrong = None
        for part in asked:
            wrong = ~part if wrong is None else wrong | ~part
        if wrong is None:
            return GuardedRead(e.tensor, *e.args, test)
        refused = wrong if test is None else test & wrong
        right = ~wrong if test is None else test & ~wrong
        value = GuardedRead(e.tensor, *e.args, right)
        return ir.Refused("refuse_index", value, refused)

    def outside(self, e, d, at, size):
        """What an error says of a read."""
        name, found = e.tensor.name, extremes(at)
        where = f"at {found[0]} to {found[1]}" if found else "where nothing bounds it"
        return (
            f"{self.name} reads {python.render_expr(e)}: dimension {d} has size {size} "
            f"and is read {where}\n  remedy: te.if_then_else(condition, {name}[...], "
            "other), where the condition bounds the index"
        )


def reads(e):
    """Every `Read` of an expression, in order of evaluation."""
    found = [item for arg in e.args for item in reads(arg)]
    return [*found, e] if isinstance(e, Read) else found


def substitute(e, values):
    """An expression with variables, found by identity, replaced."""
    return map_expr(e, lambda node: values.get(id(node), node))


def replace_reads(e, change):
    """An expression with every read replaced; ``change`` is given those in indices first."""
    return map_expr(e, lambda node: change(node) if isinstance(node, Read) else node)


class Intrinsic:
    """A block of work done by hand-written statements; see `intrinsic`."""

    def __init__(self, pattern, emit, scope=None):
        self.pattern, self.emit = pattern, emit
        self.scope = scope  # the only memory that it writes to, if there is but one
        self.axes = (*pattern.axis, *pattern.reduce_axis)


def intrinsic(pattern, emit) -> Intrinsic:
    """Statements that stand for a small computation in `Stage.tensorize`.

    Args:
        pattern: a computed tensor of the block's sizes, over placeholders.
        emit: called with a view of the output and one of each read, in order; returns
            statements that write (for a reduction: accumulate into) the output. A view
            has ``load(*indices, lanes=1)`` and ``store(value, *indices)``.
    """
    return Intrinsic(pattern, emit)


def matches(pattern, e):
    """Whether an expression is a pattern with other tensors and axes read."""
    if type(pattern) is not type(e) and not isinstance(pattern, ir.Var):
        return False
    if pattern.type != e.type:
        return False
    if isinstance(pattern, (Read, ir.Var)):
        return True
    if isinstance(pattern, Reduce):
        return pattern.op == e.op and all(map(matches, pattern.args, e.args))
    same = repr(pattern.attributes) == repr(e.attributes)
    return (
        same
        and len(pattern.args) == len(e.args)
        and all(map(matches, pattern.args, e.args))
    )


def _render_read(e):
    return f"{e.tensor.name}[{', '.join(map(python.render_expr, e.args))}]"


def _render_guarded(e):
    *indices, condition = map(python.render_expr, e.args)
    return f"{e.tensor.name}[{', '.join(indices)} if {condition}]"


def _render_reduce(e):
    names = ", ".join(axis.name for axis in e.axes)
    return f"{REDUCTION_NAMES[e.op]}({python.render_expr(e.args[0])}, {names})"


def _render_several(e):
    return ", ".join(map(python.render_expr, e.args))


python.CALLS[Read] = _render_read
python.CALLS[Several] = _render_several
python.CALLS[GuardedRead] = _render_guarded
python.CALLS[Reduce] = _render_reduce
