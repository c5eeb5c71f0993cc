"""Short rows are brought side by side, and have the bits of rows that lie so."""

import numpy as np
import pytest

import rushlight
from rushlight.codegen.emit.python import run
from rushlight.codegen.schedule.register_transpose import PIECE, transpose
from rushlight.codegen.target import current
from rushlight.ir import expr as ir
from rushlight.ir.builder import Builder
from rushlight.nn import functional as F
from rushlight.runtime.cpu.launch import launch
from rushlight.tensor_expressions.build import native
from tests.codegen.test_rowwise import softmax, softmax_backward

FLOATS = ["float32", "float64", "float16", "bfloat16"]
WHOLE = ["int8", "uint8", "int32", "int64", "bool"]
ROWS = [1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33]
LENGTHS = [1, 2, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33]

OF_FLOATS = {
    "softmax": lambda x: [rushlight.softmax(x, 1), rushlight.log_softmax(x, 1)],
    "gradients": lambda x: [
        rushlight._softmax_backward_data(x, x.sigmoid(), 1, x.dtype),
        rushlight._log_softmax_backward_data(x.sigmoid(), -abs(x), 1, x.dtype),
    ],
    "moments": lambda x: [*rushlight.var_mean(x, 1), rushlight.std(x, 1)],
    "product": lambda x: [rushlight.prod(x, 1)],
}
OF_ALL = {
    "largest": lambda x: [rushlight.amax(x, 1), rushlight.amin(x, 1)],
    "places": lambda x: [rushlight.argmax(x, 1), *rushlight.max(x, 1)],
    "sum": lambda x: [rushlight.sum(x, 1), rushlight.any(x, 1)],
}
CASES = [(name, kind) for name in OF_FLOATS for kind in FLOATS]
CASES += [(name, kind) for name in OF_ALL for kind in FLOATS + WHOLE]
CASES.remove(("places", "bool"))


def drawn(rows, length, kind):
    random = np.random.default_rng([rows, length])
    values = random.standard_normal((rows, length)) * 3
    if kind in FLOATS and length > 2:
        values[0, -1], values[-1, 0] = np.nan, -np.inf
    if kind[0] == "u":
        values = abs(values)
    if kind in WHOLE:
        values = values.round()
    return rushlight.from_numpy(values.astype(np.float32)).to(getattr(rushlight, kind))


def bits(x):
    """The bytes of a tensor, whatever its type."""
    return x.contiguous().view(rushlight.uint8).numpy()


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_short_rows_have_the_bits_of_rows_side_by_side(name, kind):
    if not current().masks(drawn(1, 1, kind).element_size()):
        pytest.skip("rows are turned by masks")
    function = {**OF_FLOATS, **OF_ALL}[name]
    for rows in (4, 5, 15, 16, 17, 33):
        # a lone sum or product is turned in rows of a vector
        for length in LENGTHS[1:4] if name in ("sum", "product") else LENGTHS[1:9]:
            x = drawn(rows, length, kind)
            wide = rushlight.cat([x, x], 1)
            beside = x.t().contiguous().t()
            for ours in (x, wide[:, :length], wide[:, length:]):
                for mine, other in zip(function(ours), function(beside), strict=True):
                    np.testing.assert_array_equal(bits(mine), bits(other))


@pytest.mark.filterwarnings("ignore:.*degrees of freedom is <= 0:UserWarning")
@pytest.mark.parametrize("length", LENGTHS)
def test_short_rows_are_what_they_are_one_by_one(length):
    for rows in ROWS:
        x = drawn(rows, length, "float32")
        weight, bias = drawn(2, length, "float32")[:, :].nan_to_num(0.5, 1.0, 1.0)
        functions = [
            *OF_FLOATS.values(),
            *OF_ALL.values(),
            lambda x: [rushlight.logsumexp(x, 1)],
            lambda x, w=weight, b=bias: [F.layer_norm(x, x.shape[1:], w, b)],
        ]
        for function in functions:
            together = function(x)
            apart = [function(row[None]) for row in x]
            for k, mine in enumerate(together):
                others = rushlight.cat([results[k] for results in apart])
                np.testing.assert_allclose(
                    mine.numpy(), others.numpy(), rtol=1e-5, atol=1e-6
                )


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("length", [33, 48, 100, 255, 512])
def test_rows_abreast_have_the_bits_of_a_row_alone(length, kind):
    shape = (length,)
    functions = [
        *OF_FLOATS.values(),
        lambda x: [
            rushlight.logsumexp(x, 1),
            F.layer_norm(x, shape),
            F.rms_norm(x, shape),
        ],
    ]
    for rows in (2, 3, 4, 5, 7, 13):
        x = drawn(rows, length, kind)
        for function in functions:
            alone = [function(row[None].clone()) for row in x]
            for k, mine in enumerate(function(x)):
                others = rushlight.cat([results[k] for results in alone])
                np.testing.assert_array_equal(bits(mine), bits(others))


@pytest.mark.parametrize("length", [1, 7, 16, 17, 32, 40])
def test_nothing_beside_the_rows_of_a_result_is_written(native, length):
    for rows in ROWS[2:]:
        x = drawn(rows, length, "float32").nan_to_num(0.0, 1.0, -1.0).numpy()
        grad = x[:, ::-1].copy()
        whole = np.full((rows + 2, length + 40), 7.0, np.float32)
        inside = whole[1:-1, 20:-20]
        native.rowwise(softmax, [inside], [x])
        mass = np.exp(x.astype(np.float64))
        exact = mass / mass.sum(1, keepdims=True)
        np.testing.assert_allclose(inside, exact, rtol=2e-6)
        native.rowwise(softmax_backward, [inside], [grad, x])
        inside[:] = 7.0
        assert (whole == 7.0).all()


@pytest.mark.parametrize("length", [13, 43])
def test_rows_may_be_their_own_result(native, length):
    x = drawn(21, length, "float32").nan_to_num(0.0, 1.0, -1.0).numpy()
    expected = np.zeros_like(x)
    native.rowwise(softmax, [expected], [x])
    native.rowwise(softmax, [x], [x])
    np.testing.assert_array_equal(x, expected)


@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("mode", ["along", "turned", "beside"])
def test_every_way_is_there_on_every_processor(target, mode):
    from rushlight.codegen.target import named, using
    from rushlight.operators.normalization import softmax

    half = ("float32", "float32"), ("float32",), "float32"
    whole = ("float32",), ("float32",), "float32"
    with using(named(target)):
        # gradients of softmaxes are never worth turning: packs ask for all ways
        assert softmax.softmax_backward_kernel.lowered(*half, mode).body
        assert softmax.softmax_kernel.lowered(*whole, mode).body


@pytest.mark.parametrize(
    ("target", "turns"), [("v2", False), ("v3", True), ("v4", True)]
)
def test_short_rows_are_turned_where_a_mask_loads_their_elements(target, turns):
    from rushlight.codegen.target import named, using
    from rushlight.operators.normalization.softmax import softmax_kernel

    whole = ("float32",), ("float32",), "float32"
    with using(named(f"x86-64-{target}")):
        along, turned = (
            softmax_kernel.lowered(*whole, m) for m in ("contiguous", "transposed")
        )
        assert (str(along.body) != str(turned.body)) == turns


SQUARES = [
    (kind, lanes)
    for kind in ["uint8", "int16", "float16", "float32", "int64", "float64"]
    for lanes in (1, 2, 4, 8, 16, 32, 64)
    if lanes * np.dtype(kind).itemsize <= 64
]


def turning(kind, lanes):
    """A kernel that turns one square, and the shuffles that it is made of."""
    b = Builder()
    out, source = (b.let("at", ir.argument(k, ir.Type(kind))) for k in range(2))
    rows = [b.let("row", ir.load(source, k * lanes, lanes)) for k in range(lanes)]
    begin = len(b.statements)
    columns = transpose(b, rows)
    lets = [s.value for s in b.statements[begin:]]
    for k, column in enumerate(columns):
        b.store(out, k * lanes, column)
    function = ir.kernel(f"turned_{kind}_{lanes}", b.statements)
    return function, [value for value in lets if isinstance(value, ir.Shuffle)]


@pytest.mark.parametrize(("kind", "lanes"), SQUARES)
def test_squares_of_every_width_are_turned(kind, lanes):
    function, _ = turning(kind, lanes)
    random = np.random.default_rng(lanes)
    size = np.dtype(kind).itemsize
    bytes = random.integers(0, 256, (lanes, lanes, size), np.uint8)
    expected = bytes.transpose(1, 0, 2)
    compiled, read = np.zeros_like(bytes), np.zeros_like(bytes)
    launch(native(function), [compiled.ctypes.data, bytes.ctypes.data], (), 1, 1)
    run(function, [read.ctypes.data, bytes.ctypes.data], [], 0, 1)
    assert (compiled == expected).all() and (read == expected).all()


@pytest.mark.parametrize(("kind", "lanes"), SQUARES)
def test_elements_stay_in_their_piece_or_move_with_all_of_it(kind, lanes):
    """Other shuffles take registers of indices, and LLVM half a millisecond each."""
    _, shuffles = turning(kind, lanes)
    assert len(shuffles) == lanes * (lanes.bit_length() - 1)
    for shuffle in shuffles:
        own, size = shuffle.args[0].type.lanes, shuffle.type.itemsize
        bytes = np.array([
            lane * size + k for lane in shuffle.lanes for k in range(size)
        ]).reshape(-1, min(PIECE, own * size))  # fmt: skip
        pieces = bytes // bytes.shape[1]
        here = np.arange(len(pieces))[:, None]
        stays = (pieces % len(pieces) == here).all()
        whole = (np.diff(bytes) == 1).all() and (pieces == pieces[:, :1]).all()
        assert stays or whole
