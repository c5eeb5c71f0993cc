"""``ops.quantized``: which operators there are, and the function of each.

They are defined when the namespace is first asked for.
"""

from functools import partial

from rushlight.ao._operators import (
    arithmetic,
    conv,
    embedding,
    functions,
    layer,
    linear,
    recurrent,
)
from rushlight.dispatch.library import Library
from rushlight.operators import call as ops
from rushlight.operators.extensions import METHODS

_CLASS = "__torch__.torch.classes.quantized."
LINEAR, CONV2, CONV3, BAG = (
    f"{_CLASS}{name}PackedParamsBase"
    for name in ("Linear", "Conv2d", "Conv3d", "Embedding")
)
CELL = "__torch__.torch.classes.rnn.CellParamsBase"
QUANTIZED, NUMBERS, ANY = "QuantizedCPU", "CPU", "CompositeExplicitAutograd"
_Q = "float output_scale, int output_zero_point) -> Tensor"


def linear_operators():
    """Schemas, dispatch keys and functions of linear layers."""
    packed = f"{LINEAR} W_prepack"
    scaled = f"Tensor X, {packed}, float Y_scale_i, int Y_zero_point_i"
    moved = f"Tensor X, float X_scale, int X_zero_point, {packed}"
    both = "(Tensor W_origin, Tensor? B_origin)"
    dequantized = "linear_with_input_q_dq_qweight_dq"
    return [
        (f"linear({scaled}) -> Tensor Y", QUANTIZED, linear.linear),
        (f"linear_relu({scaled}) -> Tensor Y", QUANTIZED, linear.linear_relu),
        (
            f"linear_dynamic(Tensor X, {packed}, bool reduce_range=False) -> Tensor Y",
            NUMBERS,
            linear.linear_dynamic,
        ),
        (
            f"linear_relu_dynamic(Tensor X, {packed}, bool reduce_range=False) -> Tensor Y",
            NUMBERS,
            linear.linear_relu_dynamic,
        ),
        (
            f"{dequantized}_output_fp32({moved}) -> Tensor Y",
            NUMBERS,
            linear.from_numbers,
        ),
        (
            f"{dequantized}_relu_output_fp32({moved}) -> Tensor Y",
            NUMBERS,
            linear.from_numbers_relu,
        ),
        (
            f"linear_prepack(Tensor W, Tensor? B=None) -> {packed}",
            QUANTIZED,
            linear.prepack,
        ),
        (
            f"linear_prepack_fp16(Tensor W, Tensor? B=None) -> {packed}",
            NUMBERS,
            linear.prepack_half,
        ),
        (f"linear_unpack({packed}) -> {both}", ANY, linear.unpack),
        (f"linear_unpack_fp16({packed}) -> {both}", ANY, linear.unpack),
        *_rarer_linear_operators(scaled, packed),
        *linear.outdated(both),
    ]


def _rarer_linear_operators(scaled, packed):
    """Those of half precision, of half bytes, and with other activations."""
    return [
        (
            f"linear_dynamic_fp16(Tensor X, {packed}) -> Tensor Y",
            NUMBERS,
            linear.linear_dynamic_half,
        ),
        (
            f"linear_relu_dynamic_fp16(Tensor X, {packed}) -> Tensor Y",
            NUMBERS,
            linear.linear_relu_dynamic_half,
        ),
        (
            "linear_dynamic_fp16_unpacked_weight(Tensor X, Tensor weight, Tensor? bias) "
            "-> Tensor Y",
            NUMBERS,
            linear.linear_dynamic_half_unpacked,
        ),
        (
            f"linear_tanh({scaled}) -> Tensor Y",
            QUANTIZED,
            layer.ending("tanh", linear.check),
        ),
        (
            f"linear_leaky_relu({scaled}, float negative_slope) -> Tensor Y",
            QUANTIZED,
            layer.ending("leaky_relu", linear.check),
        ),
        (
            "int4mm_packed_weight_cpu(Tensor self, Tensor mat2, Tensor qGroupSize, Tensor "
            "qScaleAndZeros) -> Tensor",
            NUMBERS,
            linear.int4_product,
        ),
    ]


def conv_operators():
    """Schemas, dispatch keys and functions of convolutions."""
    found = []
    for count in (1, 2, 3):
        kind = CONV3 if count == 3 else CONV2
        overload = "" if count == 1 else ".new"
        args = f"Tensor qx, {kind} packed_weight"
        make = conv.line_convolution if count == 1 else conv.convolution
        unpack = conv.unpack_line if count == 1 else conv.unpack
        for word in (f"conv{count}d", f"conv_transpose{count}d"):
            transpose = "transpose" in word
            for relu in ("",) if transpose else ("", "_relu"):
                name = word + relu + ("" if transpose else overload)
                made = make(word + relu, bool(relu))
                found.append((f"{name}({args}, {_Q}", QUANTIZED, made))
            found.append(
                (
                    f"{word}_dynamic({args}, bool reduce_range=False) -> Tensor",
                    NUMBERS,
                    conv.dynamic(f"{word}_dynamic", count == 1),
                )
            )
            more = "int[] output_padding, " if transpose else ""
            found.append(
                (
                    f"{word}_prepack(Tensor weight, Tensor? bias, int[] stride, int[] "
                    f"padding, {more}int[] dilation, int groups) -> {kind}",
                    QUANTIZED,
                    conv.packer(count, transpose),
                )
            )
            found.append(
                (
                    f"{word}_unpack({kind} packed_weights) -> (Tensor unpacked_weights, "
                    "Tensor? B_origin)",
                    ANY,
                    unpack,
                )
            )
            if count > 1:
                found += _settings(word, kind)
    return [*found, *_older_convolutions()]


def _older_convolutions():
    """Forms with a residual, and those whose settings the packed weight has, too."""
    given = f"Tensor qx, Tensor qaccum, {CONV2} packed_weight"
    windows = "int[] stride, int[] padding, int[] dilation, int groups"
    for name, activation in ("conv2d_add", "none"), ("conv2d_add_relu", "relu"):
        check = partial(conv.check, name=name)
        made = layer.ending(activation, check, joins=True)
        yield f"{name}({given}, {_Q}", QUANTIZED, made
    for count, kind in (2, CONV2), (3, CONV3):
        for relu in ("", "_relu"):
            name = f"conv{count}d{relu}"
            made = conv.with_settings(conv.convolution(name, bool(relu)))
            yield f"{name}(Tensor qx, {kind} weight, {windows}, {_Q}", QUANTIZED, made
    weight = "Tensor weight, Tensor? bias"
    yield f"conv_prepack({weight}, {windows}) -> {CONV2}", QUANTIZED, conv.packer(2)
    unpacked = "(Tensor unpacked_weights, Tensor? B_origin)"
    yield f"conv_unpack({CONV2} packed_weights) -> {unpacked}", ANY, conv.unpack
    yield "conv2d_unpack_sizes(Any packed_weights) -> Any", ANY, conv.sizes


def _settings(word, kind):
    lists = "stride", "padding", "output_padding", "dilation"
    for name in (*lists, "groups", "transpose"):
        result = "int[]" if name in lists else "int"
        schema = f"{word}_{name}({kind} packed_weights) -> {result}"
        yield schema, ANY, conv.setting(name)


_TWO = "Tensor qa, Tensor qb"
_OUT = "Tensor(a!) out) -> Tensor(a!)"


def _sums(word, relu):
    """Sums, or products, of two tensors and of a tensor and a number."""
    name, on, times = word + relu, bool(relu), word == "mul"
    whole = arithmetic.combined(word.capitalize(), times, on)
    number = (arithmetic.mul_scalar if times else arithmetic.add_scalar)(on)
    return [
        (f"{name}({_TWO}, float scale, int zero_point) -> Tensor qc", whole),
        (f"{name}.out({_TWO}, {_OUT} out", arithmetic.into(whole)),
        (f"{name}_out({_TWO}, {_OUT} out", arithmetic.into(whole)),
        (f"{name}.Scalar(Tensor qa, Scalar b) -> Tensor qc", number),
        (
            f"{name}.Scalar2(Scalar b, Tensor qa) -> Tensor qc",
            arithmetic.swapped(number),
        ),
        (
            f"{name}.Scalar_out(Tensor qa, Scalar b, {_OUT} out",
            arithmetic.into_scalar(number),
        ),
        (f"{word}_scalar{relu}(Tensor qa, Scalar b) -> Tensor qc", number),
        (
            f"{word}_scalar{relu}_out(Tensor qa, Scalar b, {_OUT} out",
            arithmetic.into_scalar(number),
        ),
        (
            f"{word}_scalar{relu}_out.Tensor(Tensor qa, Tensor b, {_OUT} out",
            arithmetic.into_scalar(number),
        ),
        (f"{word}_scalar{relu}.Tensor(Tensor qa, Tensor b) -> Tensor qc", number),
    ]


def arithmetic_operators():
    """Schemas, dispatch keys and functions of sums and products."""
    found = []
    for relu in ("", "_relu"):
        found += [*_sums("add", relu), *_sums("mul", relu)]
        joined = arithmetic.joined(bool(relu))
        given = "float? scale, int? zero_point) -> Tensor"
        found += [
            (f"cat{relu}(Tensor[] qx, int dim, {given}", joined),
            (f"cat{relu}_out(Tensor[] qx, int dim, {_OUT}", arithmetic.into(joined)),
        ]
    bounds = "Scalar? min=None, Scalar? max=None"
    found += [
        (
            f"matmul({_TWO}, float scale, int zero_point) -> Tensor qc",
            arithmetic.matmul,
        ),
        (f"clamp(Tensor qx, {bounds}) -> Tensor qy", arithmetic.clamp),
        ("relu6(Tensor qx, bool inplace=False) -> Tensor", arithmetic.relu6),
        (
            "threshold(Tensor qx, Scalar threshold, Scalar value) -> Tensor qy",
            arithmetic.threshold,
        ),
        (f"prelu(Tensor qx, Tensor weight, {_Q}", arithmetic.prelu),
    ]
    return [(schema, QUANTIZED, made) for schema, made in found]


def function_operators():
    """Schemas, dispatch keys and functions of activations, norms and pooling."""
    affine = "Tensor? weight, Tensor? bias"
    norm = f"{affine}, Tensor mean, Tensor var, float eps, {_Q}"
    found = [
        (f"hardswish(Tensor input, {_Q}", functions.elementwise(ops.hardswish)),
        (f"sigmoid(Tensor qx, {_Q}", functions.elementwise(ops.sigmoid)),
        (
            "celu(Tensor self, float output_scale, int output_zero_point, Scalar alpha=1) "
            "-> Tensor",
            functions.elementwise(ops.celu, 1),
        ),
        (
            "elu(Tensor self, float output_scale, int output_zero_point, Scalar alpha=1, "
            "Scalar scale=1, Scalar input_scale=1) -> Tensor",
            functions.elu,
        ),
        (
            f"leaky_relu(Tensor qx, Scalar negative_slope, bool inplace, {_Q}",
            functions.leaky_relu,
        ),
        (
            "dropout(Tensor self, float output_scale, int output_zero_point, "
            "Scalar p=0.5, bool training=False) -> Tensor",
            functions.dropout,
        ),
        (f"softmax(Tensor qx, int dim, {_Q}", functions.of_numbers(functions.softmax)),
        (
            f"layer_norm(Tensor input, int[] normalized_shape, {affine}, float eps, {_Q}",
            functions.of_numbers(functions.layer_norm),
        ),
        (
            f"group_norm(Tensor input, int num_groups, {affine}, float eps, {_Q}",
            functions.of_numbers(functions.group_norm),
        ),
        (
            f"instance_norm(Tensor input, {affine}, float eps, {_Q}",
            functions.of_numbers(functions.instance_norm),
        ),
    ]
    shapes = {"": None, "1d": (2, 3), "2d": (4,), "3d": (5,)}
    for word, dims in shapes.items():
        for relu in ("", "_relu"):
            schema = f"batch_norm{word}{relu}(Tensor qx, {norm}"
            found.append((schema, functions.batch_norm(bool(relu), dims)))
    for count in (1, 2):
        found.append(
            (
                f"max_pool{count}d(Tensor qx, int[] kernel_size, int[] stride, int[] "
                "padding, int[] dilation, bool ceil_mode) -> Tensor",
                functions.max_pool(count),
            )
        )
    return [(schema, QUANTIZED, made) for schema, made in found]


def recurrent_operators():
    """Schemas, dispatch keys and functions of recurrent cells."""
    weights = f"{LINEAR} w_ih, {LINEAR} w_hh"
    found = [
        (
            f"quantized_lstm_cell_dynamic(Tensor input, Tensor[] hx, {weights}, "
            "Tensor bias_ih, Tensor bias_hh) -> (Tensor, Tensor)",
            NUMBERS,
            recurrent.cell("lstm"),
        ),
        (
            f"make_quantized_cell_params_dynamic({weights}, Tensor bias_ih, Tensor "
            f"bias_hh, bool reduce_range=False) -> {CELL}",
            ANY,
            recurrent.make_dynamic,
        ),
        (
            "make_quantized_cell_params(Tensor w_ih, Tensor w_hh, Tensor b_ih, Tensor "
            f"b_hh) -> {CELL}",
            NUMBERS,
            recurrent.make_of_numbers,
        ),
        (
            f"make_quantized_cell_params_fp16({weights}) -> {CELL}",
            ANY,
            recurrent.make_half,
        ),
    ]
    for word, kind in (("gru", "gru"), ("rnn_tanh", "tanh"), ("rnn_relu", "relu")):
        schema = (
            f"quantized_{word}_cell_dynamic(Tensor input, Tensor hx, {weights}, Tensor "
            "b_ih, Tensor b_hh) -> Tensor"
        )
        found.append((schema, NUMBERS, recurrent.cell(kind)))
    return found


def layer_operators():
    """Schemas and functions of whole recurrent layers."""
    asked = ", *, ScalarType? dtype=None, bool use_dynamic=False"
    given = (
        f"{CELL}[] params, bool has_biases, int num_layers, float dropout, bool train"
    )
    for kind, hx, more, ends in (
        ("lstm", "Tensor[]", asked, "Tensor, Tensor"), ("gru", "Tensor", "", "Tensor"),
    ):  # fmt: skip
        padded, packed = recurrent.whole_layers(kind)
        rest = f"{hx} hx, {given}, bool bidirectional"
        ends = f"-> (Tensor, {ends})"
        name = f"quantized_{kind}"
        legacy, old = recurrent.outdated(name), rest.replace(f"{CELL}[]", "Tensor[]")
        for end, params, whole, parts in (
            ("", rest, padded, packed), ("_legacy", old, legacy, legacy)
        ):  # fmt: skip
            first = f"Tensor input, {params}, bool batch_first{more}"
            yield f"{name}.input{end}({first}) {ends}", whole
            first = f"Tensor data, Tensor batch_sizes, {params}{more}"
            yield f"{name}.data{end}({first}) {ends}", parts


def define():
    """Defines the operators; returns the libraries that hold them."""
    layers, library = Library("aten", "FRAGMENT"), Library("quantized", "DEF")
    for schema, function in layer_operators():
        layers.impl(layers.define(schema), function, ANY)
    groups = (
        linear_operators(), conv_operators(), arithmetic_operators(),
        function_operators(), recurrent_operators(), embedding.operators(BAG),
    )  # fmt: skip
    for group in groups:
        for schema, key, function in group:
            library.impl(library.define(schema), function, key)
    for relu in ("", "_relu"):
        for kind in ("", "_fp16"):
            name = f"linear{relu}_dynamic{kind}"
            library.impl(name, linear.shape_of_product, "Meta")
    return library, layers


METHODS |= {
    f"{LINEAR}.unpack": "quantized::linear_unpack",
    f"{CONV2}.unpack": "quantized::conv2d_unpack",
    f"{CONV3}.unpack": "quantized::conv3d_unpack",
}
LIBRARIES = define()
