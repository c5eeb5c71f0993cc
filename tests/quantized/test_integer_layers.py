"""Layers of plain integers (``ops.onednn``), and exported graphs that are lowered to them."""

import numpy as np
import pytest

import rushlight as rl
from rushlight._inductor import constant_folding
from rushlight._inductor.fx_passes import quantization

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings(
    "ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning"
)
WINDOWS = [1, 1], [1, 1], [1, 1], 1


def ours(value):
    """An argument of PyTorch's call as ours has it."""
    if isinstance(value, torch.Tensor):
        found = rl.from_numpy(value.contiguous().numpy().copy())
        last = value.ndim == 4 and value.is_contiguous(
            memory_format=torch.channels_last
        )
        return found.to(memory_format=rl.channels_last) if last else found
    if isinstance(value, torch.dtype):
        return getattr(rl, str(value).partition(".")[2])
    return value


def operands(*sizes, outputs=16):
    """Integers, a scale and a zero point, and the weight with its own, and a bias."""
    torch.manual_seed(0)
    x = torch.randint(0, 255, sizes, dtype=torch.uint8)
    kernel = [3] * (len(sizes) - 2) if len(sizes) == 4 else []
    weight = torch.randint(
        -127, 127, [outputs, sizes[1 if kernel else -1], *kernel], dtype=torch.int8
    )
    scales = torch.rand(outputs) * 0.002 + 0.001
    points = torch.zeros(outputs, dtype=torch.int32)
    return [x, 0.05, 3, weight, scales, points], torch.randn(outputs)


def check(name, overload, given, packed):
    """The same call on both sides, within a step of integers or a rounding of numbers."""
    one = getattr(getattr(rl.ops.onednn, name), overload)(*map(ours, given))
    held = [*given[:3], packed, *given[4:]]
    two = getattr(getattr(torch.ops.onednn, name), overload)(*held)
    assert str(one.dtype).partition(".")[2] == str(two.dtype).partition(".")[2]
    atol = 1 if two.dtype in (torch.uint8, torch.int8) else 1e-5
    got, wanted = one.float().numpy(), two.float().numpy()
    np.testing.assert_allclose(got, wanted, atol=atol, rtol=1e-5)
    if atol == 1:
        assert (got != wanted).mean() < 0.01


ENDS = [
    (1.0, 0, torch.float32),
    (0.1, 7, torch.uint8),
    (0.1, 7, torch.int8),
    (1.0, 0, torch.bfloat16),
]
ACTIVATIONS = [
    ("none", [], ""), ("relu", [], ""), ("gelu", [], "none"), ("gelu", [], "tanh"),
    ("hardtanh", [0.0, 6.0], ""), ("hardswish", [], ""), ("swish", [], ""),
    ("tanh", [], ""), ("leaky_relu", [0.1], ""),
]  # fmt: skip


@pytest.mark.parametrize("end", ENDS, ids=lambda end: str(end[2]))
@pytest.mark.parametrize("activation", ACTIVATIONS, ids=lambda one: one[0] + one[2])
def test_a_product_of_integers_ends_in_what_it_does_there(end, activation):
    given, bias = operands(5, 32)
    packed = torch.ops.onednn.qlinear_prepack(given[3], [5, 32])
    check("qlinear_pointwise", "default", [*given, bias, *end, *activation], packed)


@pytest.mark.parametrize("activation", ["none", "relu"])
@pytest.mark.parametrize("end", ENDS[:2], ids=lambda end: str(end[2]))
def test_a_residual_is_added_before_the_activation(end, activation):
    given, bias = operands(5, 32)
    packed = torch.ops.onednn.qlinear_prepack(given[3], [5, 32])
    numbers, integers = (
        torch.randn(5, 16),
        torch.randint(0, 255, (5, 16), dtype=torch.uint8),
    )
    after = activation, [], ""
    cases = [(numbers, 1.0, 0, "add")]
    if end[2] is torch.uint8:
        cases += [(integers, 0.04, 3, "add"), (integers, 0.04, 3, "sum")]
    else:
        cases += [(numbers, 1.0, 0, "sum")]
    for other, *how in cases:
        args = [*given, other.clone(), bias, *end, *how, 1.0, *after]
        check("qlinear_pointwise", "binary", args, packed)


@pytest.mark.parametrize("end", ENDS[:2], ids=lambda end: str(end[2]))
def test_a_convolution_of_integers_is_the_one_there(end):
    for sizes in ((2, 8, 9, 9), (1, 3, 5, 7)):
        given, bias = operands(*sizes)
        pack = torch.ops.onednn.qconv_prepack
        packed = pack(given[3], given[4], 0.05, 3, *WINDOWS, list(sizes))
        for name in ("qconv_pointwise", "qconv2d_pointwise"):
            for activation in ("none", "relu"):
                args = [*given, bias, *WINDOWS, *end, activation, [], ""]
                check(name, "default", args, packed)
        other = torch.randn(sizes[0], 16, *sizes[2:])
        if end[2] is torch.uint8:
            other = torch.randint(0, 255, other.shape, dtype=torch.uint8)
        other = other.to(memory_format=torch.channels_last)
        how = (0.04, 3) if end[2] is torch.uint8 else (1.0, 0)
        args = [*given, other, bias, *WINDOWS, *end, *how, "sum", 1.0, "relu", [], ""]
        check("qconv2d_pointwise", "binary", args, packed)


def test_scales_may_be_tensors_and_integers_signed():
    given, bias = operands(5, 32)
    packed = torch.ops.onednn.qlinear_prepack(given[3], [5, 32])
    end = 1.0, 0, torch.float32, "none", [], ""
    scaled = [
        given[0],
        torch.tensor(0.05),
        torch.tensor(3, dtype=torch.int32),
        *given[3:],
    ]
    check("qlinear_pointwise", "tensor", [*scaled, bias, *end], packed)
    signed = (given[0].to(torch.int16) - 128).to(torch.int8)
    check("qlinear_pointwise", "default", [signed, *given[1:], None, *end], packed)


def test_arguments_have_the_names_that_they_have_there():
    theirs = {
        (one.name, one.overload_name): [arg.name for arg in one.arguments]
        for one in torch._C._jit_get_all_schemas()
        if one.name.startswith("onednn::q")
    }
    count = 0
    for name in dir(rl.ops.onednn):
        packet = getattr(rl.ops.onednn, name)
        for overload in packet.overloads():
            declared = getattr(packet, overload)._schema.arguments
            key = f"onednn::{name}", "" if overload == "default" else overload
            assert [arg.name for arg in declared] == theirs[key]
            count += 1
    assert count == 14


def test_what_there_is_no_activation_or_join_of_is_refused():
    given, bias = operands(5, 32)
    given, end = [*map(ours, given), None], (1.0, 0, rl.float32)
    with pytest.raises(RuntimeError, match="unsupported unary post op bogus"):
        rl.ops.onednn.qlinear_pointwise(*given, *end, "bogus", [], "")
    other, last = rl.ones(5, 16), (1.0, 0, "mul", 1.0, "none", [], "")
    with pytest.raises(RuntimeError, match="unsupported binary post op mul"):
        rl.ops.onednn.qlinear_pointwise.binary(*given[:6], other, None, *end, *last)


def test_a_weight_that_is_written_is_packed_again():
    given, _ = operands(5, 32)
    given, end = [*map(ours, given), None], (1.0, 0, rl.float32, "none", [], "")
    first = rl.ops.onednn.qlinear_pointwise(*given, *end)
    given[3].zero_()
    assert first.abs().sum() > 0
    assert not rl.ops.onednn.qlinear_pointwise(*given, *end).any()


def test_shapes_are_known_without_numbers():
    for sizes, windows in (
        ((5, 2, 32), ()),
        ((2, 8, 9, 7), ([2, 2], [1, 1], [1, 1], 1)),
    ):
        given, bias = operands(*sizes)
        args = [*map(ours, given), ours(bias), *windows, 0.1, 7, None, "relu", [], ""]
        name = "qconv_pointwise" if windows else "qlinear_pointwise"
        op = getattr(rl.ops.onednn, name)
        alone = [one.to("meta") if isinstance(one, rl.Tensor) else one for one in args]
        wanted, found = op(*args), op(*alone)
        assert (found.shape, found.dtype) == (wanted.shape, rl.uint8)


# -- graphs

SCALE = 0.03, 120, 0, 255, rl.uint8


def down(x, *scale):
    return rl.ops.quantized_decomposed.quantize_per_tensor.default(x, *(scale or SCALE))


def up(x, *scale):
    return rl.ops.quantized_decomposed.dequantize_per_tensor.default(
        x, *(scale or SCALE)
    )


class Rounded(rl.nn.Module):
    """A program of rounded numbers, as quantizers of exported graphs write them.

    Args:
        program: of the module and an input.
        sizes: of the weight.
    """

    def __init__(self, program, *sizes):
        super().__init__()
        rl.manual_seed(0)
        self.program = program
        self.register_buffer("levels", rl.randint(-127, 127, sizes, dtype=rl.int8))
        self.register_buffer("scales", rl.rand(sizes[0]) * 0.002)
        self.register_buffer("points", rl.zeros(sizes[0]))
        self.numbers = rl.nn.Parameter(rl.randn(sizes) * 0.2)
        self.bias = rl.nn.Parameter(rl.randn(sizes[0]))

    def weight(self, levels=None):
        levels = self.levels if levels is None else levels
        return rl.ops.quantized_decomposed.dequantize_per_channel.default(
            levels, self.scales, self.points, 0, -127, 127, rl.int8
        )

    def linear(self, x):
        return rl.ops.aten.linear.default(up(x), self.weight(), self.bias)

    def forward(self, x):
        return self.program(self, x)


def calls(graph):
    names = [
        str(node.target) for node in graph.graph.nodes if node.op == "call_function"
    ]
    return [
        name.removeprefix("aten.").removeprefix("quantized_decomposed.")
        for name in names
    ]


class Tracer(rl.fx.Tracer):
    proxy_buffer_attributes = True

    def iter(self, proxy):
        """A pair, as steps that measure a scale give one."""
        return iter((proxy[0], proxy[1]))


def traced(program, *sizes):
    module = Rounded(program, *sizes)
    return rl.fx.GraphModule(module, Tracer().trace(module))


def same(graph, x):
    """The calls of a lowered graph, whose numbers are those of the graph."""
    before, lowered = calls(graph), quantization.lowered(graph)
    wanted, found = graph(x), lowered(x)
    assert calls(graph) == before
    if wanted.dtype is rl.uint8:
        assert (wanted.int() - found.int()).abs().max() <= 1
    else:
        assert (wanted - found).abs().max() < 1e-4
    assert wanted.shape == found.shape
    return calls(lowered)


aten = rl.ops.aten
DOWN, UP = "quantize_per_tensor.default", "dequantize_per_tensor.default"
LINEAR, BINARY = "onednn.qlinear_pointwise.default", "onednn.qlinear_pointwise.binary"


@pytest.mark.parametrize(
    "activation",
    [
        aten.relu.default, aten.gelu.default, aten.silu.default, aten.hardswish.default,
        lambda x: aten.hardtanh.default(x, 0.0, 6.0), aten.tanh.default,
        lambda x: aten.leaky_relu.default(x, 0.2),
        lambda x: aten.gelu.default(x, approximate="tanh"),
    ],
)  # fmt: skip
def test_an_activation_and_the_step_to_integers_are_a_layer_s_own(activation):
    def program(self, x):
        return down(activation(self.linear(down(x))))

    assert same(traced(program, 6, 8), rl.randn(5, 8)) == [DOWN, LINEAR]


def test_what_others_read_too_stays_a_number():
    def program(self, x):
        y = self.linear(down(x))
        return up(down(aten.relu.default(y))) + y

    found = same(traced(program, 6, 8), rl.randn(5, 8))
    assert found[:3] == [DOWN, LINEAR, "relu.default"]


def test_a_residual_is_the_layer_s_own_in_integers_and_in_numbers():
    def program(self, x):
        first = down(x)
        one = down(aten.relu.default(aten.add.Tensor(up(first), self.linear(first))))
        return aten.add.Tensor(self.linear(one), x)

    assert same(traced(program, 8, 8), rl.randn(5, 8)) == [DOWN, BINARY, BINARY]


def test_a_scaled_residual_and_one_that_is_written_stay_sums():
    def scaled(self, x):
        return aten.add.Tensor(self.linear(down(x)), x, alpha=2)

    def written(self, x):
        return aten.add_.Tensor(aten.mul.Tensor(x, 1), self.linear(down(x)))

    assert same(traced(scaled, 8, 8), rl.randn(5, 8))[-1] == "add.Tensor"
    assert same(traced(written, 8, 8), rl.randn(5, 8))[-1] == "add_.Tensor"


def test_a_result_that_is_added_to_itself_and_a_value_that_is_written_stay_sums():
    def doubled(self, x):
        y = self.linear(down(x))
        return aten.add.Tensor(y, y)

    def later(self, x):
        x = aten.mul.Tensor(x, 1)
        y = aten.add.Tensor(self.linear(down(x)), x)
        aten.add_.Tensor(x, 1)
        return aten.relu.default(y) + x

    assert same(traced(doubled, 6, 8), rl.randn(5, 8)) == [DOWN, LINEAR, "add.Tensor"]
    assert "add.Tensor" in same(traced(later, 8, 8), rl.randn(5, 8))


def test_numbers_of_half_precision_stay_layers_of_numbers():
    steps = rl.ops.quantized_decomposed

    def program(self, x):
        half = steps.dequantize_per_tensor.default(
            down(x), *SCALE, out_dtype=rl.bfloat16
        )
        return aten.linear.default(half, self.weight().bfloat16(), None).float()

    assert "linear.default" in same(traced(program, 6, 8), rl.randn(5, 8))


def test_results_lie_in_memory_as_those_of_the_graph_do():
    def program(self, x):
        y = aten.conv2d.default(up(down(x)), self.weight(), self.bias)
        return y, aten.view.default(y, [2, -1])

    x = rl.randn(2, 4, 6, 6)
    module = rl.export.export(Rounded(program, 6, 4, 3, 3), (x,)).module()
    with rl.no_grad():
        for one, two in zip(rl.compile(module)(x), module(x), strict=True):
            assert one.stride() == two.stride()
            assert (one - two).abs().max() < 1e-4


def test_bounds_that_are_not_those_of_a_byte_stay_a_step_of_their_own():
    def program(self, x):
        return down(self.linear(down(x)), 0.03, 60, 0, 127, rl.uint8)

    assert same(traced(program, 6, 8), rl.randn(5, 8)) == [DOWN, LINEAR, DOWN]


def test_integers_are_moved_as_they_are():
    def program(self, x):
        y = self.linear(down(x))
        y = aten.transpose.int(aten.view.default(y, [5, 2, 4]), 1, 2)
        y = aten.cat.default([y, y], 1)
        return self.linear(down(aten.reshape.default(y, [10, 8])))

    found = same(traced(program, 8, 8), rl.randn(5, 8))
    assert found.count(LINEAR) == 2 and UP not in found
    assert found.count(DOWN) <= 3


def test_numbers_that_are_moved_for_others_stay_numbers():
    def program(self, x):
        y = aten.view.default(self.linear(down(x)), [-1])
        return up(down(y)) + y

    assert same(traced(program, 6, 8), rl.randn(5, 8))[1:3] == [
        LINEAR,
        "reshape.default",
    ]


def test_pools_of_rounded_images_are_of_integers():
    windows = [1, 1], [1, 1], [1, 1], 1

    def program(self, x):
        y = aten.conv2d.default(up(down(x)), self.weight(), self.bias, *windows)
        y = up(down(aten.relu.default(y)))
        y = up(down(aten.max_pool2d.default(y, [2, 2])))
        return aten.conv2d.default(y, self.weight(), None)

    found = same(traced(program, 4, 4, 3, 3), rl.randn(2, 4, 9, 9))
    conv = "onednn.qconv_pointwise.default"
    assert found == [DOWN, conv, "max_pool2d.default", conv]


def test_scales_that_are_measured_at_each_call_come_as_tensors():
    steps = rl.ops.quantized_decomposed

    def program(self, x):
        scale, point = steps.choose_qparams.tensor(x, 0, 255, 1e-5, rl.uint8)
        rest = scale, point, 0, 255, rl.uint8
        y = steps.quantize_per_tensor.tensor(x, *rest)
        y = steps.dequantize_per_tensor.tensor(y, *rest)
        return aten.linear.default(y, self.weight(), self.bias)

    made = traced(program, 6, 8)
    assert same(made, rl.randn(5, 8))[-1] == "onednn.qlinear_pointwise.tensor"


def test_one_scale_of_a_weight_is_a_scale_of_all_its_outputs():
    def program(self, x):
        weight = up(self.levels, 0.002, 0, -127, 127, rl.int8)
        return aten.linear.default(up(down(x)), weight, self.bias)

    assert same(traced(program, 6, 8), rl.randn(5, 8)) == [DOWN, LINEAR]


def test_weights_of_numbers_are_rounded_once():
    steps = rl.ops.quantized_decomposed

    def program(self, x):
        own = self.scales + 0.001, self.points, 0, -127, 127, rl.int8
        levels = steps.quantize_per_channel.default(self.numbers, *own)
        weight = steps.dequantize_per_channel.default(levels, *own)
        return aten.linear.default(up(down(x)), weight, self.bias)

    assert same(traced(program, 6, 8), rl.randn(5, 8)) == [DOWN, LINEAR]


def test_products_by_transposed_weights_are_layers():
    def program(self, x):
        turned = aten.permute.default(self.weight(), [1, 0])
        return aten.addmm.default(self.bias, up(down(x)), turned)

    assert same(traced(program, 6, 8), rl.randn(5, 8)) == [DOWN, LINEAR]


def test_compiled_graphs_are_of_integers_where_nothing_is_learned():
    def program(self, x):
        return self.linear(down(aten.relu.default(self.linear(down(x)))))

    graph, x = traced(program, 8, 8), rl.randn(5, 8)
    compiled, integers = rl.compile(graph), quantization.lowered(graph)
    for _ in range(4):
        with rl.no_grad():
            assert rl.equal(compiled(x), integers(x))
        outside = compiled(x)
        assert outside.requires_grad
        assert rl.equal(outside, graph(x))


def test_constants_are_folded_as_there():
    from torch._inductor import constant_folding as theirs

    def program(t):
        class Scaled(t.nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = t.nn.Parameter(t.arange(3.0))

            def forward(self, x):
                doubled = t.ops.aten.mul.Tensor(self.weight, 2)
                return t.ops.aten.add.Tensor(x, t.ops.aten.exp.default(doubled))

        return t.fx.symbolic_trace(Scaled())

    one, two = program(rl), program(torch)
    constant_folding.constant_fold(one)
    theirs.constant_fold(two)
    ours, theirs = (
        [(node.op, str(node.target)) for node in graph.graph.nodes]
        for graph in (one, two)
    )
    assert ours == theirs
    assert one(rl.zeros(3)).tolist() == two(torch.zeros(3)).tolist()
