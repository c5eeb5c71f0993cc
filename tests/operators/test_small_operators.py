"""Operators of few samples beside PyTorch: values, gradients, refusals."""

import numpy as np
import pytest

import rushlight as rl
from tests.operators.oracle import assert_agrees, to_rushlight, torch

NAN, INF = float("nan"), float("inf")


def both(call, *tensors):
    """What ``call(module, *tensors)`` gives on both sides."""
    expected = call(torch, *tensors)
    return call(rl, *to_rushlight(list(tensors))), expected


def refusal(call, *tensors):
    with pytest.raises(Exception) as theirs:
        call(torch, *tensors)
    with pytest.raises(Exception) as ours:
        call(rl, *to_rushlight(list(tensors)))
    return ours.value, theirs.value


def slopes(call, *tensors):
    """The gradients of all tensors for fixed cotangents."""
    results = []
    for module, given in ((torch, tensors), (rl, to_rushlight(list(tensors)))):
        leaves = [t.detach().requires_grad_() for t in given]
        out = call(module, *leaves)
        out = out[0] if isinstance(out, tuple) else out
        weights = module.arange(1.0, out.numel() + 1).reshape(out.shape).to(out.dtype)
        (out * weights).sum().backward()
        results.append([leaf.grad for leaf in leaves])
    return results


NUMBERS = [NAN, INF, -INF, 0.0, -0.0, 1e-40, 5e-324, 3.0, -0.5, 1024.0, 65504.0, 6e-8]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_mantissas_and_exponents_are_those_of_the_bits(dtype):
    ours, theirs = both(lambda m: m.frexp(m.tensor(NUMBERS, dtype=getattr(m, dtype))))
    assert_agrees(ours.mantissa.double(), theirs.mantissa.double())
    assert_agrees(ours.exponent, theirs.exponent)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "bool", "int64"])
def test_hashes_are_the_exclusive_or_of_wide_elements(dtype):
    x = torch.randint(-9, 9, (3, 4, 5))
    for dim in ((), 1, (0, 2)):

        def call(m, x, dim=dim):
            return m.hash_tensor(x.to(getattr(m, dtype)), dim)

        ours, theirs = both(call, x)
        assert ours.dtype is rl.uint64
        assert ours.tolist() == theirs.tolist()


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("kind", ["one", "number", "numbers", "places"])
def test_slopes_of_samples_are_pytorchs(order, kind):
    x = torch.rand(4, 5, dtype=torch.float64)
    places = [torch.tensor([0.0, 1.0, 3.0, 3.5]).double(), torch.rand(5).double()]
    spacing = {"one": None, "number": 0.5, "numbers": [0.5, 2.0], "places": places}[
        kind
    ]

    def call(module, x):
        given = to_rushlight(spacing) if module is rl else spacing
        given = {} if given is None else {"spacing": given}
        return tuple(module.gradient(x, edge_order=order, **given))

    ours, theirs = both(call, x)
    for mine, other in zip(ours, theirs, strict=True):
        assert_agrees(mine, other)
    for mine, other in zip(*reversed(slopes(call, x)), strict=True):
        assert_agrees(mine, other)


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, INF])
def test_distances_between_rows_are_pytorchs(p):
    x = torch.tensor([[0.0, 1.0, 2.0], [0.0, 4.0, 2.5], [3.0, 1.0, -1.0]]).double()
    ours, theirs = both(lambda m, x: m.pdist(x, p), x)
    assert_agrees(ours, theirs)
    mine, other = reversed(slopes(lambda m, x: m.pdist(x, p), x))
    assert_agrees(mine[0], other[0])


@pytest.mark.parametrize("density", [False, True])
def test_histograms_are_pytorchs(density):
    x, weight = torch.rand(40), torch.rand(40)
    points = torch.rand(40, 2, dtype=torch.float64)
    edges = torch.tensor([0.0, 0.3, 0.5, 0.9])
    for call, given in (
        (lambda m, x: m.histogram(x, 7, density=density), (x,)),
        (lambda m, x, w: m.histogram(x, 3, weight=w, density=density), (x, weight)),
        (lambda m, x, e: m.histogram(x, e, density=density), (x, edges)),
        (lambda m, x: m.histogram(x, 4, range=(0.2, 0.7), density=density), (x,)),
    ):
        ours, theirs = both(call, *given)
        assert_agrees(ours.hist, theirs.hist)
        assert_agrees(ours.bin_edges, theirs.bin_edges)
    ours, theirs = both(lambda m, x: m.histogramdd(x, [3, 4], density=density), points)
    assert_agrees(ours.hist, theirs.hist)
    for mine, other in zip(ours.bin_edges, theirs.bin_edges, strict=True):
        assert_agrees(mine, other)


@pytest.mark.parametrize("initial", [None, 2.0])
@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
def test_reductions_of_stretches_are_pytorchs(reduce, initial):
    x = torch.tensor([[1.0, 4.0], [2.0, 0.0], [0.0, 3.0], [5.0, -1.0], [7.0, 0.5]])
    lengths = torch.tensor([2, 0, 3])

    def call(module, x):
        lens = lengths if module is torch else to_rushlight(lengths)
        return module.segment_reduce(x, reduce, lengths=lens, initial=initial)

    ours, theirs = both(call, x)
    assert_agrees(ours, theirs)
    mine, other = reversed(slopes(call, x))
    assert_agrees(mine[0], other[0])


def test_stretches_of_several_rows_have_offsets_of_their_own():
    x = torch.arange(24.0).reshape(2, 6, 2)
    offsets = torch.tensor([[0, 2, 3], [0, 3, 6]])
    call = lambda m, x, o: m.segment_reduce(x, "sum", offsets=o, axis=1)  # noqa: E731
    ours, theirs = both(call, x, offsets)
    assert_agrees(ours, theirs)


@pytest.mark.parametrize(
    "offsets", [[0, 3, 7], [-1, 6], [0, 4, 2]], ids=["past", "before", "falling"]
)
def test_stretches_outside_the_data_are_refused(offsets):
    with pytest.raises(RuntimeError, match="segment_reduce"):
        rl.segment_reduce(rl.ones(6), "sum", offsets=rl.tensor(offsets))


CALLS = {
    "unravel": lambda m: m.unravel_index(m.tensor([[3, 5], [7, -1]]), (2, 3)),
    "nonzero": lambda m: m.nonzero_static(m.tensor([[1, 0], [0, 2]]), size=3),
    "few": lambda m: m.nonzero_static(m.tensor([1, 0, 2]), size=1, fill_value=4),
    "chunks": lambda m: m._chunk_cat([m.ones(5, 2), m.ones(3, 4)], 0, 4),
    "shuffle": lambda m: m.native_channel_shuffle(m.arange(8.0).view(1, 4, 2), 2),
    "masked": lambda m: m._unsafe_masked_index(
        m.arange(4.0), m.tensor([True, False]), [m.tensor([3, 9])], 7
    ),
    "put": lambda m: m._unsafe_masked_index_put_accumulate(
        m.arange(4.0), m.tensor([True, False]), [m.tensor([3, 9])], m.ones(2)
    ),
    "reversed": lambda m: list(reversed(m.arange(4).reshape(2, 2))),
    "divided": lambda m: m.tensor([2.0, 4.0]).__rdiv__(3),
    "applied": lambda m: m.tensor([2, 4]).apply_(lambda x: x + 1),
    "mapped": lambda m: m.ones(2).map_(m.arange(2.0), lambda x, y: x + 2 * y),
    "three": lambda m: m.ones(2).map2_(m.ones(2), m.ones(1), lambda x, y, z: x + y + z),
    "copied_numbers": lambda m: [
        m.ones(2, dtype=getattr(m, kind)).copy_(number)
        for kind in ("float32", "int32", "bool", "complex64", "bfloat16")
        for number in (2, 2.5, True, 1j, float("inf"), np.float64(3), np.bool_(True))
        if not (kind == "int32" and number == float("inf"))
    ],
    "copied_gradient": lambda m: [
        m.autograd.grad((x * 1).copy_(3).sum() + x.sum(), x)[0]
        for x in [m.ones(2, requires_grad=True)]
    ],
    "copied_examples": lambda m: m.func.vmap(lambda x: x.clone().copy_(2))(m.eye(2)),
    "put by a truth": lambda m: [
        x.index_put((m.tensor(truth),), m.tensor(5.0))
        for truth in (True, False)
        for x in (m.arange(3.0), m.arange(6.0).view(2, 3).t())
    ],
    "outer": lambda m: (
        [
            m.tensordot(m.tensor(2, dtype=kind), m.tensor([3], dtype=kind), 0)
            for kind in (m.int64, m.float32)
        ]
        + [m.tensordot(m.tensor(2.0), m.tensor(3.0), 0)]
    ),
    "half": lambda m: m.tensor([1.5, 2.0]).chalf().to(m.complex64),
    "halves": lambda m: (-m.tensor([1.5 + 2j]).chalf()).abs().float(),
    "renormed": lambda m: m.embedding_renorm_(
        m.arange(8.0).reshape(4, 2), m.tensor([1, 1, 2]), 1.0, 2.0
    ),
    "statistics": lambda m: m.batch_norm_update_stats(
        m.arange(6.0).reshape(2, 3), m.zeros(3), m.ones(3), 0.1
    ),
    "bags": lambda m: m.embedding_bag(
        m.arange(8.0).reshape(4, 2), m.tensor([0, 1, 1, 3]), m.tensor([0, 2]), mode=2
    ),
    "padded": lambda m: m.embedding_bag(
        m.arange(8.0).reshape(4, 2),
        m.tensor([0, 1, 1, 3]),
        m.tensor([0, 2]),
        *(False, 1, False, None, False, 1),
    ),
    "time": lambda m: m.conv_tbc(
        m.arange(12.0).view(3, 2, 2), m.ones(2, 2, 3), m.arange(3.0), 1
    ),
    "groups": lambda m: m.nn.functional.grouped_mm(
        m.ones(8, 16), m.ones(2, 16, 8), offs=m.tensor([4, 8], dtype=m.int32)
    ),
    "scaled": lambda m: m._scaled_mm(
        m.ones(16, 32).to(m.float8_e4m3fn),
        m.ones(16, 32).to(m.float8_e4m3fn).t(),
        m.tensor(0.5),
        m.tensor(2.0),
        out_dtype=m.float32,
    ),
    "rows": lambda m: eight_bits(
        m, scale_a=m.arange(16.0)[:, None], scale_b=m.ones(1, 16), out_dtype=m.float32
    ),
    "result's scale": lambda m: eight_bits(
        m, scale_result=m.tensor(3.0), bias=m.arange(16.0), out_dtype=m.float8_e4m3fn
    ).float(),
    "small": lambda m: eight_bits(
        m, scale_result=m.tensor(3.0), out_dtype=m.float8_e5m2
    ).float(),
    "no type": lambda m: eight_bits(m, scale_result=m.tensor(3.0)).float(),
    "wide": lambda m: eight_bits(m, scale_result=m.tensor(3.0), out_dtype=m.float16),
    "branch": lambda m: m.cond(False, lambda x: x, lambda x: -x, (m.ones(2),)),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CALLS)
def test_small_operators_give_what_pytorchs_give(name):
    ours, theirs = CALLS[name](rl), CALLS[name](torch)
    ours = ours if isinstance(ours, (tuple, list)) else [ours]
    theirs = theirs if isinstance(theirs, (tuple, list)) else [theirs]
    for mine, other in zip(ours, theirs, strict=True):
        assert_agrees(mine, other)


def eight_bits(m, kind="float8_e4m3fn", **options):
    """A product of eight-bit floats, with scales of one number where none are given."""
    a = ((m.arange(512.0).reshape(16, 32) % 7) - 3).to(getattr(m, kind))
    scales = {"scale_a": m.ones(1), "scale_b": m.ones(())}
    return m._scaled_mm(a, a.t(), **(scales | options))


def by_recipe(m, one, other, scale_a=(1,), scale_b=(1,), kind="float32", bias=None):
    """The same by a recipe, with scales of such shapes."""
    a = m.ones(16, 32).to(m.float8_e4m3fn)
    scales = [[m.ones(size, dtype=getattr(m, kind))] for size in (scale_a, scale_b)]
    bias = bias and m.ones(bias)
    recipes = (scales[0], one, [], scales[1], other, [])
    return m._scaled_mm_v2(a, a.t(), *recipes, bias, m.float32)


REFUSED = {
    "frexp": lambda m: m.frexp(m.tensor([1])),
    "uint8": lambda m: m.gradient(m.ones(3).to(m.uint8)),
    "short": lambda m: m.gradient(m.ones(2), edge_order=2),
    "spaces": lambda m: m.gradient(m.ones(2, 2), spacing=[1.0]),
    "vector": lambda m: m.pdist(m.ones(3)),
    "norm": lambda m: m.pdist(m.ones(3, 2), -1),
    "bins": lambda m: m.histogram(m.ones(2), 0),
    "range": lambda m: m.histogram(m.ones(2), 3, range=(2.0, 1.0)),
    "weight": lambda m: m.histogram(m.ones(2), 3, weight=m.ones(3)),
    "points": lambda m: m.histogramdd(m.ones(5), [2]),
    "lengths": lambda m: m.segment_reduce(m.ones(3), "sum", lengths=m.tensor([1, 1])),
    "reduction": lambda m: m.segment_reduce(m.ones(3), "no", lengths=m.tensor([3])),
    "size": lambda m: m.nonzero_static(m.ones(3), size=-1),
    "positions": lambda m: m.unravel_index(m.ones(3), (2, 2)),
    "sizes": lambda m: m.unravel_index(m.tensor([3]), (2, -2)),
    "chunk sizes": lambda m: m._chunk_cat([m.ones(5, 2), m.ones(3, 4)], 1, 4),
    "offsets": lambda m: m.nn.functional.grouped_mm(m.ones(8, 8), m.ones(2, 8, 8)),
    "ends": lambda m: m.nn.functional.grouped_mm(
        m.ones(8, 8), m.ones(2, 8, 8), offs=m.tensor([4, 8])
    ),
    "scales": lambda m: eight_bits(m, scale_a=m.ones(3)),
    "scales of rows": lambda m: eight_bits(m, scale_a=m.ones(16), scale_b=m.ones(16)),
    "double scales": lambda m: eight_bits(
        m, scale_a=m.ones(16, 1).double(), scale_b=m.ones(1, 16)
    ),
    "half of them not": lambda m: m._scaled_mm(
        *(m.ones(16, 16).to(m.float8_e5m2), m.ones(16, 16), m.ones(1), m.ones(1))
    ),
    "two types": lambda m: m._scaled_mm(
        *(m.ones(16, 16).to(m.float8_e5m2), m.ones(16, 16).to(m.float8_e4m3fn)),
        *(m.ones(1).double(), m.ones(1)),
    ),
    "a matrix": lambda m: m._scaled_mm(
        *[m.ones(2).to(m.float8_e5m2)] * 2, *[m.ones(1)] * 2
    ),
    "result's scale": lambda m: eight_bits(m, scale_result=m.ones(2)),
    "wide scale": lambda m: eight_bits(m, scale_result=m.ones(1).double()),
    "short vector": lambda m: eight_bits(m, bias=m.ones(1)),
    "recipes": lambda m: by_recipe(m, [0], [1]),
    "one scale": lambda m: by_recipe(m, [0], [0], (3,)),
    "row scales": lambda m: by_recipe(m, [1], [1], (15, 1), (1, 16)),
    "recipe's type": lambda m: by_recipe(m, [0], [0], kind="float64"),
    "recipe's vector": lambda m: by_recipe(m, [0], [0], bias=3),
    "channels": lambda m: m.conv_tbc(m.ones(5, 2, 3), m.ones(2, 4, 4), m.ones(4)),
    "resized": lambda m: m.ones(2, 3).resize(7),
    "truth": lambda m: m.cond(m.ones(2), lambda: 1, lambda: 2),
    "steps": lambda m: m.sym_constrain_range(7, min=0, max=5),
    "states": lambda m: m.lstm_cell(
        m.ones(2, 3), [m.ones(2, 2)], m.ones(8, 3), m.ones(8, 2)
    ),
    "gates": lambda m: m.gru_cell(
        m.ones(2, 3), m.ones(2, 2), m.ones(5, 3), m.ones(5, 2)
    ),
    "graph": lambda m: m.ones(2, requires_grad=True).apply_(lambda x: x),
    "number": lambda m: m.ones(2).map_(3, lambda x, y: x),
    "two kinds": lambda m: m.ones(2).map2_(m.ones(2), m.ones(2).long(), min),
    "layouts": lambda m: m.ones(2).map_(m.ones(2).to_sparse(), min),
    "always": lambda m: m.set_warn_always(1),
    "copied word": lambda m: m.ones(2).copy_("a"),
    "copied list": lambda m: m.ones(2).copy_([1.0, 2.0]),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", REFUSED)
def test_what_pytorch_refuses_is_refused_in_its_words(name):
    ours, theirs = refusal(lambda m: REFUSED[name](m))
    assert type(ours) is type(theirs)
    mine, other = (str(error).splitlines()[0] for error in (ours, theirs))
    assert mine.replace("rushlight.", "torch.")[:60] == other[:60]


def test_scaled_products_refuse_halves():
    """PyTorch looks at types or scales first, by the processor's instructions."""
    ours, theirs = refusal(lambda m: eight_bits(m, "float16"))
    assert isinstance(theirs, (RuntimeError, ValueError))
    assert isinstance(ours, RuntimeError)
    assert "Expected mat1 to be Float8 matrix got Half" in str(ours)


@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn_tanh", "rnn_relu"])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_recurrent_operators_are_pytorchs(kind, bidirectional):
    gates = {"lstm": 4, "gru": 3}.get(kind, 1)
    directions = 2 if bidirectional else 1
    torch.manual_seed(0)
    x = torch.rand(5, 2, 3, dtype=torch.float64)
    states = [torch.rand(2 * directions, 2, 4, dtype=torch.float64) for _ in range(2)]
    params = []
    for layer in range(2):
        inputs = 4 * directions if layer else 3
        for _ in range(directions):
            for shape in ((inputs,), (4,), (), ()):
                params.append(torch.rand(gates * 4, *shape, dtype=torch.float64))

    def call(module, x, *rest):
        hx = tuple(rest[:2]) if kind == "lstm" else rest[0]
        options = (True, 2, 0.0, False, bidirectional)
        whole = getattr(module, kind)(x, hx, list(rest[2:]), *options, False)
        sizes = module.tensor([2, 2, 1])
        packed = getattr(module, kind)(
            x.reshape(10, 3)[:5], sizes, hx, list(rest[2:]), *options
        )
        return (*whole, *packed)

    ours, theirs = both(call, x, *states, *params)
    for mine, other in zip(ours, theirs, strict=True):
        assert_agrees(mine, other)


@pytest.mark.parametrize("kind", [torch.int8, torch.uint8], ids=str)
@pytest.mark.parametrize("sizes", [(3, 300, 5), (1, 4, 1), (2, 0, 3), (0, 4, 2)])
def test_eight_bit_products_have_sums_of_32_bits(kind, sizes):
    rows, depth, columns = sizes
    torch.manual_seed(0)
    a = torch.randint(0, 256, (rows, depth)).to(kind)
    b = torch.randint(-128, 128, (depth, columns)).to(torch.int8)
    ours, theirs = both(lambda m, x, y: m._int_mm(x, y), a, b)
    assert_agrees(ours, theirs)


@pytest.mark.parametrize("gelu", [False, True])
@pytest.mark.parametrize("sizes", [(4,), (3, 4), (1, 4), (3, 1)])
def test_activations_behind_products_are_pytorchs(gelu, sizes):
    torch.manual_seed(0)
    added, a, b = torch.randn(sizes), torch.randn(3, 5), torch.randn(5, 4)

    def call(m, added, a, b):
        return m._addmm_activation(added, a, b, beta=0.5, alpha=2, use_gelu=gelu)

    ours, theirs = both(call, added, a, b)
    assert_agrees(ours, theirs)
    ours, theirs = refusal(
        lambda m, *given: (
            call(m, *(t.requires_grad_() for t in given)).sum().backward()
        ),
        *(added, a, b),
    )
    assert isinstance(ours, type(theirs)) and "is not implemented" in str(ours)


@pytest.mark.parametrize(
    "kinds, sizes",
    [
        ((torch.float32, torch.int8), ((2, 3), (3, 4))),
        ((torch.int8, torch.int32), ((2, 3), (3, 4))),
        ((torch.int8, torch.int8), ((3,), (3, 4))),
        ((torch.int8, torch.int8), ((2, 3), (4, 4))),
    ],
)
def test_eight_bit_products_refuse_what_pytorchs_refuse(kinds, sizes):
    given = [torch.ones(s, dtype=k) for s, k in zip(sizes, kinds, strict=True)]
    ours, theirs = refusal(lambda m, x, y: m._int_mm(x, y), *given)
    assert type(ours) is type(theirs)
    assert str(ours) == str(theirs)


@pytest.mark.parametrize("equal_nan", [False, True])
def test_complex_numbers_with_nan_are_close_where_pytorchs_are(equal_nan):
    x = torch.tensor([complex(NAN, 1), complex(1, NAN), complex(INF, 0), 1 + 2j])
    y = torch.tensor([complex(2, NAN), complex(1, NAN), complex(INF, 0), 1 + 2j])
    for call in (
        lambda m, a, b: m.isclose(a, b, equal_nan=equal_nan),
        lambda m, a, b: m.isclose(a, b, rtol=0, atol=0, equal_nan=equal_nan),
    ):
        ours, theirs = both(call, x, y)
        assert ours.tolist() == theirs.tolist()


def test_closeness_is_laid_out_as_the_comparison():
    for module in (torch, rl):
        held = module.zeros(40)
        x = module.as_strided(held, (3, 2, 1, 1), (1, 6, 3, 1))
        y = module.as_strided(held, (3, 2, 1, 1), (1, 3, 6, 6), 3)
        assert module.isclose(x, y).stride() == (1, 3, 3, 3)


@pytest.mark.parametrize("shape", [(2, 3), ()])
@pytest.mark.parametrize("kind", ["uint16", "uint32", "uint64"])
def test_places_of_wide_unsigned_types_are_refused(kind, shape):
    x = torch.tensor([1, 2], dtype=getattr(torch, kind))
    ours, theirs = refusal(lambda m, t: m.unravel_index(t, shape), x)
    assert type(ours) is type(theirs)
    assert str(ours).startswith(str(theirs))


@pytest.mark.parametrize(
    "equation, shapes, kinds",
    [
        ("ac,cb->ab", [(2, 1), (1, 3)], (torch.float32, torch.float64)),
        ("ac,cb", [(2, 1), (4, 3)], (torch.float32, torch.float64)),
        ("c,ccca,cDeb", [(4,), (4, 4, 4, 4), (1, 3, 2, 3)], (torch.int32,) * 3),
        ("ce,aDAd,Dbc", [(4, 1), (3, 2, 4, 1), (2, 4, 4)], (torch.int32,) * 3),
        ("ab->a", [(2, 1)], (torch.int32,)),
        ("ab,ab->ab", [(1, 1), (1, 1)], (torch.int32,) * 2),
    ],
)
def test_dimensions_of_one_are_no_sums_of_einsum(equation, shapes, kinds):
    given = [torch.ones(s, dtype=k) for s, k in zip(shapes, kinds, strict=True)]
    theirs = torch.einsum(equation, *given)
    ours = rl.einsum(equation, *to_rushlight(given))
    assert str(ours.dtype) == str(theirs.dtype).replace("torch", "rushlight")
    assert ours.tolist() == theirs.tolist()


@pytest.mark.parametrize(
    "path", [None, [0, 1, 0, 1], [1, 2, 0, 1], [2, 0, 1, 0], [0, 1], [0, 3, 0, 1], [-1, 0, 0, 1]]
    + [[1, 1, 0, 1], []],
)  # fmt: skip
def test_einsum_follows_a_path_as_pytorchs_does(path):
    given = [torch.rand(s) for s in ((2, 3), (3, 4), (4, 5))]
    found = []
    for call, tensors in (
        (torch._C._VariableFunctions.einsum, given),
        (rl.ops.aten.einsum, to_rushlight(given)),
    ):
        try:
            found.append(call("ab,bc,cd->da", tensors, path=path).tolist())
        except RuntimeError as error:
            found.append(str(error).partition("\n")[0])
    if isinstance(found[0], list):
        found = torch.tensor(found).unbind()
        torch.testing.assert_close(found[1], found[0])
    else:
        assert found[1] == found[0]


class TestOrdersOfEinsum:
    """The package that chooses the order of ``einsum``'s products."""

    @pytest.fixture(autouse=True)
    def package(self):
        pytest.importorskip("opt_einsum", reason="the package is an extra")

    def test_a_chain_of_products_begins_where_it_is_cheap(self):
        chain = rl.rand(50, 2), rl.rand(2, 50), rl.rand(50, 2)
        path_of = rl.backends.opt_einsum.path_of
        assert path_of("ab,bc,cd->ad", chain) == [1, 2, 0, 1]
        with rl.backends.opt_einsum.flags(enabled=False):
            assert path_of("ab,bc,cd->ad", chain) is None
        assert path_of("ab,bc->ac", chain[:2]) is None

    @pytest.mark.parametrize("strategy", ["greedy", "optimal"])
    def test_the_order_changes_no_sum_but_by_rounding(self, strategy):
        chain = [rl.rand(*s).double() for s in ((5, 2), (2, 7), (7, 3), (5, 3))]
        left = rl.einsum("ab,bc,cd,ad->a", *chain)
        with rl.backends.opt_einsum.flags(strategy=strategy):
            chosen = rl.einsum("ab,bc,cd,ad->a", *chain)
        rl.testing.assert_close(chosen, left)

    def test_a_strategy_that_the_package_does_not_have_is_refused(self):
        with pytest.raises(ValueError, match="must be one of"):
            rl.backends.opt_einsum.set_flags(True, "random")
        assert rl.backends.opt_einsum.strategy == "auto"


def test_gelu_by_tanh_keeps_its_digits_where_it_is_small():
    x = torch.linspace(-4, -1, 2001)
    u = x.double() + 0.044715 * x.double() ** 3
    exact = x.double() * torch.sigmoid(2 * (2 / torch.pi) ** 0.5 * u)
    ours = rl.nn.functional.gelu(to_rushlight([x])[0], approximate="tanh")
    error = torch.tensor(ours.tolist()).double() / exact - 1
    assert float(error.abs().max()) < 4e-6  # by 1 + tanh(u) it is 1e-2


@pytest.mark.parametrize("call", [
    lambda t: t.ones(2, 3) + t.ones(4, 5),
    lambda t: t.where(t.ones(2, 3) > 0, t.ones(4, 5), 1),
    lambda t: t.broadcast_tensors(t.ones(2, 3), t.ones(4, 5)),
    lambda t: t.ones(2, 3).lerp(t.ones(4, 5), 1.0),
    lambda t: t.einsum("ij,jk", t.ones(2, 3), t.ones(4, 5)),
    lambda t: t.einsum("i", t.ones(2, 3)),
    lambda t: t.einsum("ijk...", t.ones(2, 3)),
    lambda t: t.einsum("ii", t.ones(2, 3)),
    lambda t: t.einsum("i,ii", t.ones(3), t.ones(2, 2)),
])  # fmt: skip
def test_of_several_sizes_that_differ_the_one_is_told_that_pytorch_tells(call):
    said = []
    for library in (torch, rl):
        with pytest.raises(RuntimeError) as raised:
            call(library)
        said.append(str(raised.value).partition("\n")[0])
    assert said[0] == said[1]
