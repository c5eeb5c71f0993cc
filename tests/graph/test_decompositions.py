"""Formulas of ``torch._decomp`` give what the operators give that they stand for."""

import pytest

import rushlight as rl
from rushlight import _decomp
from rushlight.fx.experimental.proxy_tensor import make_fx

torch = pytest.importorskip("torch")
from torch import _decomp as theirs  # noqa: E402

X, Y, Z = "XYZ"  # random tensors of 4 rows of 6
POSITIVE, PART, MASK, CLASSES, SQUARE, VECTOR, SIX, ONE = (
    "positive part mask classes square vector six one".split()
)
ROWS = (X, [6], SIX, SIX, 1e-5)
CALLS = {
    "elu": [(X,), (X, 1.5, 2.0, 0.5)],
    "gelu": [(X,), (X, {"approximate": "tanh"})],
    "silu": [(X,)], "mish": [(X,)], "hardswish": [(X,)], "hardsigmoid": [(X,)],
    "hardtanh": [(X,), (X, -0.5, 0.25)],
    "leaky_relu": [(X,), (X, 0.3)],
    "softplus": [(X,), (X, 2.0, 0.5)],
    "softshrink": [(X,), (X, 0.25)], "hardshrink": [(X,), (X, 0.25)],
    "tanh_backward": [(X, PART)], "sigmoid_backward": [(X, PART)],
    "softplus_backward": [(X, Y, 1.0, 20.0), (X, Y, 2.0, 0.5)],
    "elu_backward": [(X, 1.5, 2.0, 0.5, False, Y), (X, 1.0, 1.0, 1.0, True, Y)],
    "hardtanh_backward": [(X, Y, -0.5, 0.25)],
    "hardsigmoid_backward": [(X, Y)], "hardswish_backward": [(X, Y)],
    "leaky_relu_backward": [(X, Y, 0.3, False)],
    "threshold_backward": [(X, Y, 0.5)],
    "gelu_backward": [(X, Y), (X, Y, {"approximate": "tanh"})],
    "silu_backward": [(X, Y)], "mish_backward": [(X, Y)],
    "addcmul": [(X, Y, Z), (X, Y, Z, {"value": 0.5})],
    "addcdiv": [(X, Y, POSITIVE), (X, Y, POSITIVE, {"value": 0.5})],
    "lerp.Scalar": [(X, Y, 0.25), (X, Y, 0.75)], "lerp.Tensor": [(X, Y, PART)],
    "addmm": [(X, X, SQUARE), (X, X, SQUARE, {"beta": 0.5, "alpha": 2.0})],
    "addmv": [(VECTOR, X, SIX), (VECTOR, X, SIX, {"beta": 0, "alpha": 2.0})],
    "addr": [(X, VECTOR, SIX)],
    "dot": [(SIX, SIX)],
    "rsub.Tensor": [(X, Y), (X, Y, {"alpha": 2})],
    "frac": [(X,)],
    "logaddexp": [(X, Y)],
    "xlogy.Tensor": [(X, POSITIVE)],
    "masked_fill.Scalar": [(X, MASK, 2.0)],
    "logit": [(PART,), (PART, 0.3)], "logit_backward": [(X, PART), (X, PART, 0.3)],
    "nan_to_num": [(X,)],
    "tril": [(X,), (X, 1)], "triu": [(X,), (X, -1)],
    "mse_loss": [(X, Y), (X, Y, 0), (X, Y, 2)],
    "mse_loss_backward": [(X, X, Y, 1), (X, X, Y, 2)],
    "smooth_l1_loss": [(X, Y), (X, Y, 0, 0.5), (X, Y, 2, 0.0)],
    "huber_loss": [(X, Y), (X, Y, 0, 0.5)],
    "binary_cross_entropy": [(PART, PART), (PART, PART, POSITIVE, 2)],
    "soft_margin_loss": [(X, Y), (X, Y, 0)],
    "nll_loss_forward": [
        (X, CLASSES, None, 1, -100), (X, CLASSES, SIX, 1, 2), (X, CLASSES, SIX, 2, 2),
        (X, CLASSES, None, 0, 2),
    ],
    "nll_loss_backward": [
        (VECTOR, X, CLASSES, None, 0, 2, ONE), (VECTOR, X, CLASSES, SIX, 0, -100, ONE),
    ],
    "_softmax": [(X, 1, False), (X, 0, False)], "_log_softmax": [(X, 1, False)],
    "_softmax_backward_data": [(X, PART, 1, "dtype")],
    "_log_softmax_backward_data": [(X, PART, 1, "dtype")],
    "logsumexp": [(X, [1]), (X, [0, 1], True)],
    "native_layer_norm": [ROWS, (X, [6], None, None, 1e-5)],
    "native_group_norm": [(X, SIX, SIX, 4, 6, 1, 2, 1e-5)],
    "native_dropout_backward": [(X, MASK, 2.0)],
    "embedding_dense_backward": [
        (X, CLASSES, 7, -1, False), (X, CLASSES, 7, 2, False), (X, CLASSES, 7, -1, True),
    ],
    "select_backward": [(VECTOR, [4, 6], 1, 2)],
    "slice_backward": [(X, [9, 6], 0, 1, 9, 2)],
    "diagonal_backward": [(VECTOR, [4, 6], 1, 0, 1)],
    "t": [(X,), (SIX,)],
}  # fmt: skip
LISTS = {"stack", "baddbmm", "native_layer_norm_backward", "xlogy"}  # below


def operands(package, dtype):
    rl.manual_seed(3)
    made = {name: rl.randn(4, 6) * 2 for name in (X, Y, Z)}
    made[POSITIVE], made[PART] = rl.rand(4, 6) + 0.5, rl.rand(4, 6) * 0.8 + 0.1
    made[SQUARE], made[VECTOR], made[SIX] = rl.randn(6, 6), rl.randn(4), rl.rand(6)
    made[ONE] = rl.tensor(2.5)
    made = {k: package.tensor(v.tolist(), dtype=dtype) for k, v in made.items()}
    made[MASK] = made[X] > 0
    made[CLASSES] = package.tensor([2, 0, 5, 2])
    return {**made, "dtype": dtype}


def called(package, function, call, dtype):
    values = operands(package, dtype)
    given = [values.get(v, v) if isinstance(v, str) else v for v in call]
    options = given.pop() if isinstance(given[-1], dict) else {}
    found = function(*given, **options)
    found = found if isinstance(found, (tuple, list)) else (found,)
    return [(str(one.dtype).split(".")[-1], one.tolist()) for one in found]


def flat(numbers):
    return sum(map(flat, numbers), []) if isinstance(numbers, list) else [numbers]


@pytest.mark.parametrize("dtype, rel", [("float32", 2e-5), ("bfloat16", 2e-2)])
def test_a_formula_gives_what_pytorchs_operator_gives(dtype, rel):
    for name, calls in CALLS.items():
        packet, _, overload = name.partition(".")
        ours = getattr(getattr(rl.ops.aten, packet), overload or "default")
        operator = getattr(getattr(torch.ops.aten, packet), overload or "default")
        for call in calls:
            got = called(
                rl, _decomp.decomposition_table[ours], call, getattr(rl, dtype)
            )
            wanted = called(torch, operator, call, getattr(torch, dtype))
            for (kind, numbers), (their_kind, right) in zip(got, wanted, strict=True):
                assert kind == their_kind, (name, call)
                close = pytest.approx(flat(right), rel=rel, abs=rel / 2, nan_ok=True)
                assert flat(numbers) == close, (name, call)


@pytest.mark.parametrize(
    "dtype, weights",
    [("float32", "float32"), ("bfloat16", "float32"), ("bfloat16", "bfloat16")],
)
def test_formulas_of_layer_norms_gradients_give_what_the_operator_gives(dtype, weights):
    rl.manual_seed(1)
    x, grad = rl.randn(2, 3, 4, dtype=getattr(rl, dtype))
    w = rl.rand(4, dtype=getattr(rl, weights))
    op = rl.ops.aten.native_layer_norm_backward.default
    _, mean, rstd = rl.native_layer_norm(x, [4], w, w, 1e-5)
    call = grad, x, [4], mean, rstd, w, w, [True, True, True]
    found = _decomp.decomposition_table[op](*call)
    assert [one.dtype for one in found] == [x.dtype, w.dtype, w.dtype]  # as PyTorch's
    for ours, wanted in zip(found, op(*call)):
        close = 1e-5 if dtype == "float32" else 3e-2
        assert rl.allclose(ours.float(), wanted.float(), atol=close, rtol=close)


def test_every_formula_stands_for_an_operator_that_pytorch_takes_apart():
    known = {str(op) for op in theirs.decomposition_table}
    core = {str(op) for op in theirs.core_aten_decompositions()}
    names = {str(op) for op in _decomp.decomposition_table}
    kept = {str(op) for op in _decomp.get_decompositions(_decomp.decompositions.CORE)}
    assert names - known - kept == set()
    assert {str(op) for op in _decomp.core_aten_decompositions()} == names & core
    tried = {name.partition(".")[0] for name in CALLS} | LISTS
    assert {name.split(".")[1] for name in names} - tried == set()


def test_backends_are_given_graphs_of_the_core_set():
    graphs = []

    def keep(graph, _):
        graphs.append({str(node.target) for node in graph.graph.nodes})
        return graph.forward

    table = _decomp.core_aten_decompositions()
    backend = rl._dynamo.backends.common.aot_autograd(
        fw_compiler=keep, decompositions=table
    )
    model = rl.nn.Sequential(rl.nn.Linear(3, 4), rl.nn.SiLU(), rl.nn.LayerNorm(4))
    x = rl.randn(2, 3)
    found = rl.compile(model, backend=backend)(x)
    assert rl.allclose(found, model(x), atol=1e-6)
    found.sum().backward()
    assert len(graphs) == 2 and "aten.silu_backward.default" not in graphs[1]
    assert (
        not {"aten.silu.default", "aten.linear.default", "aten.t.default"} & graphs[0]
    )


def test_graphs_are_recorded_by_the_formulas():
    aten = rl.ops.aten
    table = _decomp.get_decompositions([aten.silu, aten.addcmul, aten.mm])
    assert len(table) == 2  # products are no formulas
    traced = make_fx(
        lambda x: rl.addcmul(x, rl.nn.functional.silu(x), x), decomposition_table=table
    )(rl.randn(3))
    steps = [str(node.target) for node in traced.graph.nodes]
    assert "aten.sigmoid.default" in steps and "aten.add.Tensor" in steps
    assert not {"aten.silu.default", "aten.addcmul.default"} & set(steps)
    x = rl.randn(5)
    assert rl.allclose(traced(x), rl.addcmul(x, rl.nn.functional.silu(x), x))


def test_tables_are_made_and_cut_as_pytorchs():
    aten, table = rl.ops.aten, {}
    _decomp.register_decomposition([aten.sin, aten.cos.default], table)(rl.exp)
    assert [str(op) for op in table] == ["aten.sin.default", "aten.cos.default"]
    with pytest.raises(RuntimeError, match="duplicate registrations for aten.sin.def"):
        _decomp.register_decomposition(aten.sin, table)(rl.exp)
    _decomp.remove_decompositions(table, [aten.sin, aten.tan])
    assert [str(op) for op in table] == ["aten.cos.default"]
    with pytest.raises(TypeError, match="not int"):
        _decomp.get_decompositions([3])
