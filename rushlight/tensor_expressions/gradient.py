"""Gradients of tensor expressions, as tensor expressions.

What a computation reads at ``idx(i, k)`` gets ``sum(g[i] * slope)`` over all ``i, k`` that
read it. Where an index is linear, one of its axes is solved for: a gradient gathers, and is
scheduled like any other computation. What is left of the axes is summed over.
"""

from rushlight.codegen import language as L
from rushlight.ir import expr as ir
from rushlight.ir.linear import linear
from rushlight.tensor_expressions.bounds import Forms
from rushlight.tensor_expressions.expressions import (
    Axis,
    Read,
    Reduce,
    Tensor,
    compute,
    is_data,
    reads,
    reductions,
    replace_reads,
    substitute,
    sum,
)
from rushlight.tensor_expressions.reducers import Part

# Of functions of one argument: the slope, from the argument and the value.
SLOPES = {
    "exp": lambda x, y: y,
    "expm1": lambda x, y: y + 1,
    "log": lambda x, y: 1 / x,
    "log1p": lambda x, y: 1 / (1 + x),
    "log2": lambda x, y: 1.4426950408889634 / x,
    "sqrt": lambda x, y: 0.5 / y,
    "rsqrt": lambda x, y: -0.5 * y / x,
    "sin": lambda x, y: L.cos(x),
    "cos": lambda x, y: -L.sin(x),
    "tanh": lambda x, y: 1 - y * y,
    "erf": lambda x, y: 1.1283791670955126 * L.exp(-x * x),
    "floor": lambda x, y: None,
    "ceil": lambda x, y: None,
    "trunc": lambda x, y: None,
    "round": lambda x, y: None,
}


def gradient(output, seed, wanted) -> Tensor | None:
    """The gradient of an output with respect to a tensor that it is computed from.

    Args:
        output: a computed tensor.
        seed: the gradient that the output got, a tensor of its shape.
        wanted: which tensor's gradient it is.

    Returns:
        A computed tensor of the shape of ``wanted``; None where nothing depends on it.

    Raises:
        NotImplementedError: a function or reduction in between has no derivative here.
    """
    order, simple = [], {}
    _visit(output, order, simple)
    found = {id(simple[id(output)]): [seed]}
    for stage in reversed(order):
        got = _total(found.pop(id(stage), []), stage)
        if got is None:
            continue
        for tensor, part in _contributions(stage, got):
            found.setdefault(id(tensor), []).append(part)
    return _total(found.get(id(wanted), []), wanted)


def zeros(tensor) -> Tensor:
    """A computed tensor of zeros in the shape of another."""
    zero = ir.Const(tensor.type, 0)
    return compute(tensor.shape, lambda *at: zero, "zeros")


def _visit(tensor, order, simple):
    """Computations in order, each an expression of reads or one reduction alone."""
    if id(tensor) in simple:
        return
    if not tensor.is_computed:
        simple[id(tensor)] = tensor
        return
    tensor = tensor.primary
    if len(tensor.results) > 1 or any(
        isinstance(r, Part) for r in reductions(tensor.body)
    ):
        raise NotImplementedError(
            f"te.gradient: {tensor.name} joins several values at once, which has no "
            "derivative here\n  remedy: te.sum, te.max or others of one value each"
        )
    for read in reads(tensor.body):
        _visit(read.tensor, order, simple)

    def simplified(read):
        new = simple[id(read.tensor)]
        return read if new is read.tensor else new[read.args]

    body, parts = replace_reads(tensor.body, simplified), {}
    if not isinstance(body, Reduce):
        for item in reductions(body):
            axes = [Axis(axis.name, axis.extent) for axis in tensor.axis]
            own = substitute(item, dict(zip(map(id, tensor.axis), axes)))
            part = Tensor(f"{tensor.name}_part", tensor.shape, item.type, axes, own)
            order.append(part)
            parts[id(item)] = part[tuple(tensor.axis)]
    body, tensor_now = substitute(body, parts), tensor
    if body is not tensor.body:
        tensor_now = Tensor(tensor.name, tensor.shape, tensor.type, tensor.axis, body)
    simple[id(tensor)] = tensor_now
    order.append(tensor_now)


def _total(parts, tensor):
    """The sum of tensors of one shape."""
    if len(parts) < 2:
        return parts[0] if parts else None

    def added(*at):
        value = parts[0][at]
        for part in parts[1:]:
            value = value + part[at]
        return value

    return compute(tensor.shape, added, f"{tensor.name}_gradient")


def _contributions(stage, got):
    """Pairs of a tensor that a stage reads and what one of the reads gives to it."""
    body, axes = stage.body, list(stage.axis)
    value, weight = body, got[tuple(stage.axis)]
    if isinstance(body, Reduce):
        axes += body.axes
        (value,) = body.args
        if body.op in ("max", "min"):
            weight = weight * _share(stage, value)
        elif body.op == "mul":
            weight = weight * _others(stage, value)
    seen = set()
    for read in reads(value):
        if id(read) in seen or not read.type.is_float:
            continue
        seen.add(id(read))
        slope = derivative(value, read)
        if slope is not None:
            part = weight if _is_one(slope) else weight * slope
            yield read.tensor, _gathered(read, axes, part)


def _share(stage, value):
    """What of a gradient each place of an extreme gets: equal ones share it."""
    body, best = stage.body, stage[tuple(stage.axis)]
    hits = L.select(value == best, _like(value, 1.0), _like(value, 0.0))
    axes = [Axis(axis.name, axis.extent) for axis in stage.axis]
    moved = dict(zip(map(id, stage.axis), axes))
    counted = substitute(Reduce("add", body.axes, hits), moved)
    count = Tensor(f"{stage.name}_ties", stage.shape, value.type, axes, counted)
    return hits / count[tuple(stage.axis)]


def _others(stage, value):
    """For each factor of a product that of all others: right where some are zero, too."""
    own = *stage.axis, *stage.body.axes
    axes = [Axis(axis.name, axis.extent) for axis in own]
    fresh = [Axis(axis.name, axis.extent, reduce=True) for axis in stage.body.axes]
    count, same = len(stage.axis), None
    for axis, other in zip(axes[count:], fresh, strict=True):
        part = axis == other
        same = part if same is None else same & part
    moved = dict(zip(map(id, own), (*axes[:count], *fresh), strict=True))
    rest = L.select(same, _like(value, 1.0), substitute(value, moved))
    product = Reduce("mul", tuple(fresh), rest)
    shape = tuple(axis.extent for axis in axes)
    others = Tensor(f"{stage.name}_others", shape, value.type, axes, product)
    return others[own]


def _gathered(read, axes, value):
    """The sum of a value over all axes where they read an element, for each element."""
    tensor = read.tensor

    def element(*at):
        values, tests = {}, []
        for index, place in zip(read.indices, at):
            _solve(index, place, axes, values, tests)
        left = [axis for axis in axes if id(axis) not in values]
        fresh = [Axis(axis.name, axis.extent, reduce=True) for axis in left]
        values |= dict(zip(map(id, left), fresh))
        values = _closed(values)
        body = substitute(value, values)
        test = None
        for part in (substitute(one, values) for one in tests):
            if not _is_known(part):
                test = part if test is None else test & part
        if test is not None:
            body = L.select(test, body, _like(body, 0.0))
        return sum(body, fresh) if fresh else body

    return compute(tensor.shape, element, f"{tensor.name}_gradient")


def _solve(index, place, axes, values, tests):
    """Finds an axis of a linear index from the place that it leads to, or tests for it."""
    form = None if is_data(index) else linear(index)
    free = []
    if form is not None:
        known = set(map(id, axes))
        free = [
            (abs(count), var, count)
            for var, count in form.terms.items()
            if id(var) in known and id(var) not in values
        ]
    if not free:
        tests.append(index == place)
        return
    size, axis, count = min(free, key=lambda item: item[0])
    rest = form.plus(linear(axis), -count).expression()
    far = place - rest if count > 0 else rest - place
    if size > 1:
        tests.append(far % size == 0)
        far = far // size
    values[id(axis)] = far
    tests += [axis >= 0, axis < axis.extent]


def _closed(values):
    """Values of axes with the axes that they are found from replaced as well."""
    for _ in values:
        values = {key: substitute(e, values) for key, e in values.items()}
    return values


def _is_known(test):
    """Whether a test holds wherever its axes are."""
    forms = Forms()
    holds = forms.holds(test)
    return bool(holds) and all(forms.proved(form) for form in holds)


# ---- slopes of expressions


def derivative(e, node):
    """The slope of an expression in one of its nodes; None where it is zero everywhere.

    >>> x, y = ir.Var("x", ir.f32), ir.Var("y", ir.f32)
    >>> derivative(x * y + L.exp(x), x)
    y + exp(x)
    """
    if e is node:
        return _like(e, 1.0)
    if isinstance(e, (ir.Const, ir.Var, Read)) or not e.type.is_float:
        return None
    if isinstance(e, ir.Select):
        sides = [derivative(side, node) for side in e.args[1:]]
        if sides == [None, None]:
            return None
        return L.select(e.args[0], *[_like(e, 0.0) if s is None else s for s in sides])
    slopes = [derivative(arg, node) for arg in e.args]
    if all(slope is None for slope in slopes):
        return None
    if isinstance(e, ir.Cast):
        return ir.cast(e.type, slopes[0])
    if isinstance(e, ir.Unary):
        if e.op == "neg":
            return -slopes[0]
        return _times(slopes[0], L.sign(e.args[0])) if e.op == "abs" else _refuse(e)
    if isinstance(e, ir.Call):
        if e.name not in SLOPES:
            return _refuse(e)
        slope = SLOPES[e.name](e.args[0], e)
        return None if slope is None else _times(slopes[0], slope)
    return _binary(e, slopes) if isinstance(e, ir.Binary) else _refuse(e)


def _binary(e, slopes):
    """The slope of an operation of two values from theirs."""
    left, right = e.args
    first, second = slopes
    if e.op in ("min", "max"):
        chosen = left <= right if e.op == "min" else left >= right
        zero = _like(e, 0.0)
        return L.select(chosen, *[zero if s is None else s for s in slopes])
    if e.op in ("add", "sub"):
        second = -second if second is not None and e.op == "sub" else second
    elif e.op == "mul":
        first, second = _times(first, right), _times(second, left)
    elif e.op == "div":
        first = None if first is None else first / right
        second = None if second is None else -_times(second, e) / right
    else:
        return _refuse(e)
    if first is None or second is None:
        return second if first is None else first
    return first + second


def _times(slope, factor):
    if slope is None:
        return None
    return factor if _is_one(slope) else slope * factor


def _is_one(e):
    return isinstance(e, ir.Const) and e.value == 1


def _like(e, value):
    return ir.Const(e.type, value)


def _refuse(e):
    name = getattr(e, "name", None) or getattr(e, "op", type(e).__name__)
    raise NotImplementedError(
        f"te.gradient: {name} has no derivative here\n  in: {e!r}\n"
        "  remedy: a combination of others, or an operator with a formula of its own"
    )
