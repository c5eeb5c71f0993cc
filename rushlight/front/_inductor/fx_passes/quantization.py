"""Graphs of rounded numbers as graphs of integers.

Quantizers of exported graphs write a layer as one of numbers, between steps from integers
and a step to integers. It becomes one call of ``ops.onednn``, which takes the integers of
its input and its weight together with what the layer ends in: a residual, an activation,
the scale of the result. Between layers integers are moved as they are.
"""

import copy

import rushlight as rl
from rushlight._inductor.constant_folding import constant_fold
from rushlight._inductor.pattern_matcher import is_mutation_op
from rushlight.ao._operators import onednn
from rushlight.ao.quantization.fx import _decomposed  # noqa: F401 — its operators
from rushlight.fx import GraphModule, Node
from rushlight.fx.graph_module import _get_attr

__all__ = ["lower_quantized", "lowered"]

aten, steps, layers = rl.ops.aten, rl.ops.quantized_decomposed, rl.ops.onednn
QUANTIZE = {steps.quantize_per_tensor.default, steps.quantize_per_tensor.tensor}
DEQUANTIZE = {steps.dequantize_per_tensor.default, steps.dequantize_per_tensor.tensor}
BYTES = {(0, 255, rl.uint8), (-128, 127, rl.int8)}  # what a layer's results may become
LINEAR = aten.linear.default
PRODUCTS = {aten.addmm.default, aten.mm.default}
TRANSPOSES = {aten.t.default, aten.permute.default}
CONVOLUTIONS = {
    aten.conv1d.default, aten.conv2d.default, aten.conv3d.default, aten.convolution.default
}  # fmt: skip
WINDOWS = "stride", "padding", "dilation", "groups"
# Steps that give elements of their operands, the same ones of integers and of numbers.
MOVES = {
    aten.cat.default, aten.expand.default, aten.flatten.using_ints, aten.max_pool2d.default,
    aten.permute.default, aten.reshape.default, aten.select.int, aten.slice.Tensor,
    aten.squeeze.dim, aten.transpose.int, aten.unsqueeze.default, aten.view.default,
}  # fmt: skip
SUMS = {aten.add.Tensor, aten.add_.Tensor}
ACTIVATIONS = {
    aten.relu.default: "relu", aten.relu_.default: "relu", aten.tanh.default: "tanh",
    aten.gelu.default: "gelu", aten.silu.default: "swish", aten.silu_.default: "swish",
    aten.hardtanh.default: "hardtanh", aten.hardtanh_.default: "hardtanh",
    aten.hardswish.default: "hardswish", aten.hardswish_.default: "hardswish",
    aten.leaky_relu.default: "leaky_relu", aten.leaky_relu_.default: "leaky_relu",
}  # fmt: skip
ENDS = {LINEAR, *CONVOLUTIONS, *SUMS, *ACTIVATIONS}


def lowered(module):
    """A module that shares a graph's attributes, with layers of integers.

    Args:
        module: the `GraphModule`; its constants are taken as they are now.
    """
    found = GraphModule(module, copy.deepcopy(module.graph))
    constant_fold(found)
    lower_quantized(found)
    return found


def lower_quantized(gm):
    """Puts layers of integers in the place of rounded ones.

    Args:
        gm: the `GraphModule`, which is changed.
    """
    for node in list(gm.graph.nodes):
        if node.target in PRODUCTS:
            as_linear(node)
        elif node.target is aten.view.default:
            node.target = aten.reshape.default  # images have their channels innermost
        elif node.op == "output":
            keep_strides(node)
    nodes = list(gm.graph.nodes)
    for node in nodes:
        if node.target in QUANTIZE:
            lift(node)
    for node in nodes:
        lower(gm, node)
    gm.graph.eliminate_dead_code()
    gm.graph.lint()
    gm.recompile()


def arguments(node):
    """The arguments of a call by name, defaults too."""
    declared = node.target._schema.arguments
    given = {one.name: getattr(one, "default_value", None) for one in declared}
    return given | dict(zip(given, node.args)) | dict(node.kwargs)


def only_user(node):
    """The one step that reads a value; None where there are several, or none."""
    return next(iter(node.users)) if len(node.users) == 1 else None


def scale_of(node):
    """What a step from or to integers goes by: scale, zero point, bounds and type."""
    given = arguments(node)
    names = "scale", "zero_point", "quant_min", "quant_max", "dtype"
    return tuple(given[name] for name in names)


# -- steps that move integers


def lift(node):
    """Puts a step to integers before those that move elements, as far as it goes."""
    source, scale = node.args[0], scale_of(node)
    if source.target in DEQUANTIZE and scale_of(source) == scale:
        node.replace_all_uses_with(source.args[0])
    elif moves_integers(source, scale):
        for operand in moved_by(source):
            with node.graph.inserting_before(source):
                args = operand, *node.args[1:]
                before = node.graph.call_function(node.target, args)
            source.replace_input_with(operand, before)
            lift(before)
        node.replace_all_uses_with(source)


def moved_by(node):
    """The values whose elements a step moves."""
    first = node.args[0]
    return dict.fromkeys(first if isinstance(first, list | tuple) else [first])


def moves_integers(node, scale):
    """Whether integers alone are read of what a step moves, and those of a scale moved."""
    return (
        node.target in MOVES
        and only_user(node) is not None
        and all(
            one.target in DEQUANTIZE and scale_of(one) == scale
            or one.target in ENDS and only_user(one) is not None
            or moves_integers(one, scale)
            for one in moved_by(node)
        )
    )  # fmt: skip


# -- layers


def as_linear(node):
    """Writes a product of rows by a transposed weight as the layer that it was.

    Args:
        node: the product; views around it join dimensions of rows, and part them again.
    """
    *bias, x, transposed = node.args
    if transposed.target not in TRANSPOSES:
        return
    last, user = node, only_user(node)
    views = aten.view.default, aten.reshape.default
    if user is not None and x.target in views and user.target in views:
        (inner, _), (_, sizes) = x.args, user.args
        shape = getattr(inner.meta.get("val"), "shape", ())
        if list(shape[:-1]) == list(sizes[:-1]):
            x, last = inner, user
    with node.graph.inserting_before(last):
        args = x, transposed.args[0], *bias
        last.replace_all_uses_with(node.graph.call_function(LINEAR, args))


def keep_strides(output):
    """Has results in the order of memory that they had: see `rushlight.ao._operators.conv`."""
    for node in output.all_input_nodes:
        example = node.meta.get("val")
        if getattr(example, "ndim", 0) > 3 and example.is_contiguous():
            with output.graph.inserting_before(output):
                laid = output.graph.call_function(aten.contiguous.default, (node,))
            output.replace_input_with(node, laid)


def layer_of(node):
    """What a layer reads: input, weight, bias, and a convolution's settings; or None."""
    if node.target is not LINEAR and node.target not in CONVOLUTIONS:
        return None
    given = arguments(node)
    if given.get("transposed"):
        return None
    settings = [given[name] for name in WINDOWS if name in given]
    return given["input"], given["weight"], given["bias"], settings


def _several(values, count):
    values = [values] if isinstance(values, int) else list(values)
    return values * (count // len(values))


def weight_of(gm, node):
    """The attributes that a weight in bytes is: levels, scales and zero points; or None."""
    if node.target is steps.dequantize_per_tensor.default:
        levels, *numbers = node.args[:3]
        found = [levels]
        for name, value in zip(("scale", "zero_point"), numbers):
            gm.register_buffer(f"{node.name}_{name}", rl.tensor([value]))
            with gm.graph.inserting_before(node):
                found.append(gm.graph.get_attr(f"{node.name}_{name}"))
    elif node.target is steps.dequantize_per_channel.default:
        found = node.args[:3] if arguments(node)["axis"] == 0 else ()
    else:
        return None
    constant = [isinstance(one, Node) and one.op == "get_attr" for one in found]
    return found if found and all(constant) else None


def lower(gm, node):
    """Writes a layer of rounded numbers, and what it ends in, as one of integers.

    Args:
        gm: the module.
        node: a step, which may be no layer.
    """
    found = layer_of(node)
    if found is None or found[0].target not in DEQUANTIZE:
        return
    x, weight, bias, windows = found
    weight = weight_of(gm, weight)
    if arguments(x)["out_dtype"] not in (None, rl.float32):
        return
    if weight is None or bias is not None and bias.op != "get_attr":
        return
    tensors = [
        None if one is None else _get_attr(gm, one.target) for one in (*weight, bias)
    ]
    count = tensors[0].ndim - 2
    on_host = tensors[0].device.type == "cpu" and tensors[0].dtype is rl.int8
    if not on_host or bool(windows) != bool(count):
        return
    windows = [_several(each, count) for each in windows[:3]] + [*windows[3:]]
    onednn.packed(*tensors, windows)  # once, and not at the first call
    last, other = with_residual(node) if count in (0, 2) else (node, None)
    last, activation = with_activation(last)
    last, stored = with_quantize(last)
    given = bias, *windows, *stored
    if other is not None:
        given = other[0], *given, *other[1:], 1.0
    packet = layers.qconv_pointwise if windows else layers.qlinear_pointwise
    if other is not None and windows:
        packet = layers.qconv2d_pointwise
    form = ["default" if other is None else "binary"]
    if isinstance(x.args[1], Node):
        form = [*form[other is None :], "tensor"]
    with gm.graph.inserting_before(last):
        operator = getattr(packet, "_".join(form))
        args = *x.args[:3], *weight, *given, *activation
        call = gm.graph.call_function(operator, args)
    call.meta.update(last.meta)
    last.replace_all_uses_with(call)


def with_residual(node):
    """The step that adds another value to a result and nothing else reads, and the value.

    The value comes with what it stands for: a scale, a zero point, and how it is added.
    """
    user = only_user(node)
    if user is None or user.target not in SUMS or arguments(user)["alpha"] != 1:
        return node, None
    first, other = user.args
    if other is node and user.target is aten.add.Tensor:
        first, other = other, first
    if first is not node or other is node or not isinstance(other, Node):
        return node, None
    if any(is_mutation_op(one) for one in other.users):
        return node, None
    if other.target is steps.dequantize_per_tensor.default:
        return user, (*other.args[:3], "dequantized_add")
    return user, (other, 1.0, 0, "add")


def with_activation(node):
    """The activation that alone reads a result, and how calls name it."""
    user = only_user(node)
    if user is None or user.target not in ACTIVATIONS:
        return node, ["none", [], ""]
    _, *values = arguments(user).values()
    if user.target is aten.gelu.default:
        return user, ["gelu", [], values[0]]
    return user, [ACTIVATIONS[user.target], values, ""]


def with_quantize(node):
    """The step to bytes that alone reads a result, and their scale, zero point and type."""
    user = only_user(node)
    if user is not None and user.target is steps.quantize_per_tensor.default:
        scale, point, *bounds = scale_of(user)
        if tuple(bounds) in BYTES:
            return user, [scale, point, bounds[-1]]
    return node, [1.0, 0, rl.float32]
