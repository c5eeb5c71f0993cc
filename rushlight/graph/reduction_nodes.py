"""Operators that reduce along some dimensions, as members of a group's kernel.

Each has its expression already: a reduction its monoid, a softmax or a norm its function
over rows. In a group with other steps over the same sizes they become one nest of loops
(`rushlight.codegen.frontend.nest`): what comes before is computed as elements are read, what comes
after as results are there.
"""

import sys
from math import prod

from rushlight.codegen.frontend.nest import ROW, fold, length
from rushlight.codegen.frontend.reduction import Reduction
from rushlight.codegen.language import sqrt, total
from rushlight.core.geometry import canonical_dim as wrap_dim
from rushlight.dispatch.declared import FUNCTIONAL, rule_of
from rushlight.graph.fused_node import Member, is_window
from rushlight.graph.kernel_resolution import reduction_kernel
from rushlight.graph.steps import FRESH, NUMBER
from rushlight.ir import expr as ir
from rushlight.operators.reduction.reduction import SPREADS

FLOATS = ("float32", "float64")
_HERE = sys.modules[__name__]  # where declarations' rules are
# One row runs on one thread: of more elements, the operator's own kernel is faster.
LONGEST = 1 << 16
# Rows that lie side by side are read a line of memory at a time: of longer ones, each
# step is far from the last.
TALLEST = 256


def row_member_of(step):
    """The step as a member that works along rows; None where it is no such operator."""
    call, op = step.call, step.op
    if op.namespace != "aten" or op.form != FUNCTIONAL:
        return None
    if any(not value.plain for value in step.reads):
        return None
    if any(call.kind(i) == NUMBER for i in range(len(call.values))):
        return None
    rule = rule_of(op, "fused_along", _HERE)
    member = rule and rule.member(step)
    if member is None or not member.sizes or 0 in member.sizes:
        return None
    if any(one.dtype.name not in FLOATS for one in (*member.inputs, *member.outputs)):
        return None
    return member if suits(member) else None


def suits(member):
    """Whether the loops of a group would be good ones."""
    sizes, axes = member.sizes, member.axes
    along = prod(sizes[d] for d in axes)
    if along == prod(sizes) and along > LONGEST:
        return False
    wide = [d for d, size in enumerate(sizes) if size > 1]
    strides = member.inputs[0].strides
    near = min(wide, key=lambda d: (strides[d], -d), default=None)
    return near is None or near in axes or along <= TALLEST


def made_by(step, source, sizes, axes, inputs, outputs, maps):
    """A member over rows, of values that are computed in the type that they have."""
    in_types = tuple(one.dtype.name for one in inputs)
    out_types = tuple(one.dtype.name for one in outputs)
    member = Member(
        *(step, source, list(inputs), in_types, out_types, in_types, ()),
        *(list(outputs), tuple(sizes)),
    )
    member.axes, member.maps = tuple(axes), maps
    return member


class Along:
    """An expression over rows, with what tells it from others.

    Attributes:
        options: what `along` is given besides the operator and the count of inputs.
    """

    def __init__(self, name, digest, function, options):
        self.name, self.digest, self.function = name, digest, function
        self.options = options


def along(op, count, kernel=None, **options):
    """An operator's expression over rows; None where it has none.

    Args:
        op: the operator.
        count: how many operands it has.
        kernel: the operator's kernel that reduces, by default the host's.
        options: ``correction`` of a variance, ``eps`` of a norm.
    """
    rule = rule_of(op, "fused_along", _HERE) or reduction
    return rule.expression(op, count, kernel, options)


def norm_along(op, count, kernel, options):
    """Layer normalization as an expression, with a weight and bias or without."""
    name = "layer_norm_kernel" if count == 1 else "layer_norm_affine_kernel"
    kernel, eps = _rowwise("normalization", name), options["eps"]

    def function(*values):
        return kernel.function(*values, eps)

    return Along(name, (kernel.digest, eps), function, options)


def reduction_along(op, count, kernel, options):
    """A reduction as an expression."""
    kernel = kernel or reduction_kernel(op)
    if kernel is None or type(kernel.source) is not Reduction:
        return None
    source, base = kernel.source, op.name.partition(".")[0]
    correction = options.get("correction", 0)

    def function(value, row):
        if base in SPREADS:
            return spread_of(base, value, correction)
        if source.widens and value.type == ir.f32:
            value = ir.cast(ir.f64, value)
        return fold(source, value, row, scalar=ir.cast(ir.f64, length(row)))

    return Along(source.name, (source.digest, correction), function, options)


def reduction_member(step):
    """A sum, mean, extreme or variance."""
    call = step.call
    names = list(step.op.signature.names)
    given = dict(zip(names, call.values, strict=True))
    x = call.values[0]
    outputs = [value for kind, value in call.results if kind == FRESH]
    if len(outputs) != len(call.results):
        return None
    if any(one.dtype is not x.dtype for one in outputs) or not is_window(x):
        return None
    dims = given.get("dim")
    if dims is None or (not isinstance(dims, int) and len(dims) == 0):
        dims = range(x.ndim)
    dims = (dims,) if isinstance(dims, int) else dims
    axes = tuple(sorted(wrap_dim(d, x.ndim) for d in dims))
    options = {}
    if "correction" in given:
        correction = 1 if given["correction"] is None else given["correction"]
        if not isinstance(correction, int):
            return None
        options = {"correction": correction}
    kernel = reduction_kernel(step.op, call.device_of())
    source = kernel and along(step.op, 1, kernel, **options)
    if source is None:
        return None
    whole = None
    kept = tuple(d for d in range(x.ndim) if d not in axes)
    out_map = whole if given.get("keepdim") else kept
    maps = [whole], [out_map] * len(outputs)
    return made_by(step, source, x.sizes, axes, [x], outputs, maps)


def spread_of(base, value, correction):
    """A variance of distances from the mean: rows are in the cache by then.

    What the mean was rounded by is the mean of the distances.
    """
    count = ir.cast(value.type, length(ROW))
    center = total(value, over=ROW) / count
    gap = value - center
    shift = total(gap, over=ROW) / count
    spread = total(gap * gap, over=ROW) - shift * shift * count
    spread = ir.select(spread < 0.0, 0.0, spread)
    if correction:
        count = count - float(correction)
        count = ir.select(count < 0.0, 0.0, count)
    spread = spread / count
    rooted, with_mean = SPREADS[base]
    if rooted:
        spread = sqrt(spread)
    # an infinite mean has no distances
    center = ir.select(shift == shift, center + shift, center)
    return (spread, center) if with_mean else (spread,)


def _rowwise(module, name):
    from importlib import import_module

    return getattr(import_module(f"rushlight.operators.normalization.{module}"), name)


def softmax_member(step):
    """A softmax or the gradient of one."""
    call = step.call
    count = step.op.signature.names.index("dim")  # what comes before it are tensors
    inputs = call.values[:count]
    ((kind, result),) = call.results
    if kind != FRESH or any(one.sizes != result.sizes for one in inputs):
        return None
    if any(one.dtype is not result.dtype for one in inputs) or not result.ndim:
        return None
    axes = (wrap_dim(call.values[count], result.ndim),)
    source, maps = along(step.op, count), ([None] * count, [None])
    return made_by(step, source, result.sizes, axes, inputs, [result], maps)


def layer_norm_member(step):
    """Layer normalization, with the moments that it gives."""
    call = step.call
    x, shape, weight, bias, eps = call.values
    if any(kind != FRESH for kind, _ in call.results):
        return None
    outputs = [value for _, value in call.results]
    if (weight is None) != (bias is None):
        return None
    lead = x.ndim - len(shape)
    axes = tuple(range(lead, x.ndim))
    inputs = [x] if weight is None else [x, weight, bias]
    if any(one.dtype is not x.dtype for one in (*inputs, *outputs)):
        return None
    if outputs[1].sizes != (*x.sizes[:lead], *[1] * len(shape)):
        return None
    source = along(step.op, len(inputs), eps=float(eps))
    maps = [None] * len(inputs), [None] * 3
    return made_by(step, source, x.sizes, axes, inputs, outputs, maps)


class Rule:
    """What operators' declarations name as ``fused_along``.

    Attributes:
        member: from a step to what it is in a group, or None.
        expression: what `along` gives, of the same arguments.
    """

    def __init__(self, member, expression):
        self.member, self.expression = member, expression


reduction = Rule(reduction_member, reduction_along)
layer_norm = Rule(layer_norm_member, norm_along)


def softmax(name):
    """The rule of a kernel over rows of the family of softmax."""

    def expression(op, count, kernel, options):
        source = _rowwise("softmax", name)
        return Along(name, source.digest, source.function, options)

    return Rule(softmax_member, expression)
