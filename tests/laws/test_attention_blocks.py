"""Attention by blocks is attention by whole matrices, wherever a block ends."""

import math

import numpy as np
import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight.operators import call as ops
from rushlight.operators.attention import attention as family

SIZES = [1, 15, 16, 17, 63, 64, 65, 128, 130]  # around vectors and blocks
ROUNDING = {"float32": 2e-6, "float64": 1e-14, "bfloat16": 2e-2, "float16": 2e-3}


def drawn(*sizes, dtype="float32", seed=0):
    values = np.random.default_rng([seed, *sizes]).standard_normal(sizes)
    return rl.tensor(values).to(getattr(rl, dtype))


def by_blocks(query, key, value, mask=None, causal=False, scale=None):
    function = ops._scaled_dot_product_flash_attention_for_cpu
    return function(query, key, value, 0.0, causal, attn_mask=mask, scale=scale)[0]


def whole(query, key, value, mask=None, causal=False, scale=None):
    """The same in double precision."""
    shared = query.shape[1] // key.shape[1]
    key, value = (t.double().repeat_interleave(shared, 1) for t in (key, value))
    if mask is not None and mask.dtype is not rl.bool:
        mask = mask.double()
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    return family._composed(query.double(), key, value, mask, 0.0, causal, scale)


def agree(query, key, value, mask=None, **options):
    """Compares results and gradients."""
    given = [t.detach().requires_grad_() for t in (query, key, value)]
    results = []
    for function in (by_blocks, whole):
        out = function(*given, mask, **options)
        grad = drawn(*out.shape, seed=3).to(query.dtype).to(out.dtype)
        results.append([out, *rl.autograd.grad(out, given, grad)])
    for ours, exact in zip(*results, strict=True):
        close = ROUNDING[query.dtype.name] * max(1.0, exact.abs().max().item())
        assert ours.dtype is query.dtype
        np.testing.assert_allclose(
            ours.detach().double().numpy(), exact.detach().double().numpy(),
            rtol=0, atol=close,
        )  # fmt: skip


@pytest.mark.parametrize("keys", SIZES)
@pytest.mark.parametrize("queries", SIZES)
def test_every_end_of_a_block(queries, keys):
    operands = drawn(1, 2, queries, 8), drawn(1, 2, keys, 8), drawn(1, 2, keys, 8)
    agree(*operands)
    agree(*operands, causal=True)


@pytest.mark.parametrize("width", [1, 5, 16, 33, 64, 100])
@pytest.mark.parametrize("depth", [1, 7, 16, 40, 64, 129])
def test_every_size_of_a_head(depth, width):
    agree(drawn(1, 2, 70, depth), drawn(1, 2, 66, depth), drawn(1, 2, 66, width))


@pytest.mark.parametrize("mask", ["", "causal", "bool", "own", "float32", "of keys"])
@pytest.mark.parametrize("dtype", ROUNDING)
def test_every_type_and_mask(dtype, mask):
    operands = [drawn(2, 4, n, 24, dtype=dtype) for n in (70, 90, 90)]
    masks = {
        "bool": drawn(2, 1, 70, 90) > -0.5,
        "own": drawn(70, 90, dtype=dtype),
        "float32": drawn(1, 4, 70, 90),
        "of keys": drawn(2, 1, 1, 90) > -0.5,
    }
    agree(*operands, masks.get(mask), causal=mask == "causal", scale=0.3)


@pytest.mark.parametrize("heads", [1, 2, 3])
def test_heads_of_keys_serve_several_of_queries(heads):
    operands = drawn(2, 6, 70, 16), drawn(2, heads, 80, 16), drawn(2, heads, 80, 16)
    agree(*operands)
    ours = F.scaled_dot_product_attention(*operands, enable_gqa=True)
    np.testing.assert_array_equal(ours.numpy(), by_blocks(*operands).numpy())


def layouts(tensor):
    yield tensor.transpose(1, 2).contiguous().transpose(1, 2)
    yield tensor.transpose(2, 3).contiguous().transpose(2, 3)
    yield tensor.repeat_interleave(2, -1)[..., ::2]
    yield rl.cat([tensor, tensor], 2)[:, :, tensor.shape[2] :]
    yield tensor[:1].expand(*tensor.shape)


@pytest.mark.parametrize("number", range(5))
def test_every_layout(number):
    operands = [list(layouts(drawn(2, 3, n, 20)))[number] for n in (66, 70, 70)]
    agree(*operands, list(layouts(drawn(2, 3, 66, 70)))[number])
    agree(*operands, list(layouts(drawn(2, 3, 66, 70) > -1))[number])


@pytest.mark.parametrize("lead", [(), (3,), (2, 3), (2, 1, 3)])
def test_any_leading_dimensions(lead):
    operands = [drawn(*lead, n, 12) for n in (40, 50, 50)]
    mask = drawn(40, 50)
    ours = F.scaled_dot_product_attention(*operands, attn_mask=mask)
    exact = family._composed(*operands, mask, 0.0, False, 1 / math.sqrt(12))
    assert ours.shape == exact.shape
    np.testing.assert_allclose(ours.numpy(), exact.numpy(), rtol=0, atol=2e-6)


def test_results_lie_as_queries_do():
    query = drawn(2, 70, 3, 16).transpose(1, 2)
    out = by_blocks(query, query, query)
    assert out.stride() == query.stride()
    dense = query.contiguous()
    assert by_blocks(dense, query, query).stride() == dense.stride()


def test_results_and_gradients_lie_as_in_pytorch():
    torch = pytest.importorskip("torch")

    def layouts(lib):
        plain = lib.rand(2, 3, 5, 4)
        rows = lib.rand(2, 5, 3, 4).transpose(1, 2)
        turned = lib.rand(5, 6, 4).transpose(0, 1).view(2, 3, 5, 4)
        wide = lib.rand(2, 3, 5, 8)[..., :4]
        attend = lib.ops.aten._scaled_dot_product_flash_attention_for_cpu
        again = lib.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
        for given in (plain, rows, turned, wide, plain[:, :1].expand(2, 3, 5, 4)):
            for others in (plain, rows):
                operands = given, others, others
                out, logs = attend(*operands)
                grads = again(lib.ones_like(out), *operands, out, logs, 0.0, False)
                yield tuple(t.stride() for t in (out, *grads))

    assert list(layouts(rl)) == list(layouts(torch))


def test_who_sees_nothing_gets_zeros_and_gives_none():
    operands = [drawn(1, 1, 70, 8).requires_grad_() for _ in range(3)]
    mask = rl.ones(70, 70, dtype=rl.bool)
    mask[5], mask[:, 7] = False, False
    out = by_blocks(*operands, mask)
    assert not out[0, 0, 5].any()
    grads = rl.autograd.grad(out.sum(), operands)
    assert all(g.isfinite().all() for g in grads)
    assert not grads[0][0, 0, 5].any()
    assert not grads[1][0, 0, 7].any() and not grads[2][0, 0, 7].any()


def test_without_keys_results_are_zero():
    query, key = drawn(1, 2, 70, 8).requires_grad_(), drawn(1, 2, 0, 8)
    out = by_blocks(query, key, key)
    assert not out.any()
    assert not rl.autograd.grad(out.sum(), query)[0].any()


def test_what_is_not_finite_stays_where_it_is():
    query, key, value = (drawn(1, 1, 70, 8) for _ in range(3))
    query[0, 0, 3, 0] = math.nan
    value[0, 0, 66, 2] = math.inf
    out = by_blocks(query, key, value)
    assert out[0, 0, 3].isnan().all()
    rest = rl.cat([out[0, 0, :3], out[0, 0, 4:]])
    assert rest[:, 2].isposinf().all()
    assert rest[:, :2].isfinite().all() and rest[:, 3:].isfinite().all()


def test_large_scores_do_not_overflow():
    query, key, value = (drawn(1, 1, 130, 8, dtype="float64") for _ in range(3))
    given = [t.requires_grad_() for t in (query * 1e3, key * 1e2, value)]
    out, exact = by_blocks(*given), whole(*given)
    np.testing.assert_allclose(out.detach().numpy(), exact.detach().numpy(), atol=1e-9)
    assert all(g.isfinite().all() for g in rl.autograd.grad(out.sum(), given))


def test_bits_depend_on_no_threads():
    operands = [drawn(1, 1, 700, 16).requires_grad_() for _ in range(3)]
    before = rl.get_num_threads()
    results = []
    try:
        for threads in (1, 2, 5):
            rl.set_num_threads(threads)
            out = by_blocks(*operands, causal=True)
            grads = rl.autograd.grad(out.square().sum(), operands)
            results.append([t.detach().numpy() for t in (out, *grads)])
    finally:
        rl.set_num_threads(before)
    for other in results[1:]:
        for ours, theirs in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_memory_grows_with_the_length_and_not_its_square():
    peaks = []
    for length in (2048, 4096):
        operands = [drawn(1, 1, length, 8).requires_grad_() for _ in range(3)]
        F.scaled_dot_product_attention(*operands).sum().backward()
        operands = [t.detach().requires_grad_() for t in operands]
        rl.cpu.reset_peak_memory_stats()
        held = rl.cpu.memory_stats()["allocated_bytes.all.current"]
        F.scaled_dot_product_attention(*operands).sum().backward()
        peaks.append(rl.cpu.memory_stats()["allocated_bytes.all.peak"] - held)
    assert peaks[1] < 2.5 * peaks[0] < 4096 * 4096


def test_gradients_of_gradients():
    operands = [
        drawn(1, 2 if k == 0 else 1, n, 3, dtype="float64").requires_grad_()
        for k, n in enumerate((4, 5, 5))
    ]
    for options in ({}, {"causal": True}, {"mask": drawn(4, 5, dtype="float64")}):

        def function(*given, options=options):
            return by_blocks(*given, **options)

        assert rl.autograd.gradcheck(function, operands)
        assert rl.autograd.gradgradcheck(function, operands)


def test_transforms_see_through():
    operands = [drawn(3, 2, n, 8, dtype="float64") for n in (40, 50, 50)]
    attend = F.scaled_dot_product_attention
    exact = attend(*operands)
    mapped = rl.func.vmap(attend)(*operands)
    np.testing.assert_allclose(mapped.numpy(), exact.numpy(), rtol=1e-12)
    batch = [t.unsqueeze(1) for t in operands]
    mask = drawn(40, 50) > -1
    mapped = rl.func.vmap(by_blocks, (0, None, 0, None))(
        batch[0], batch[1][0], batch[2], mask
    )
    for k in range(3):
        one = by_blocks(batch[0][k], batch[1][0], batch[2][k], mask)
        np.testing.assert_allclose(mapped[k].numpy(), one.numpy(), rtol=1e-12)
    tangents = [drawn(*t.shape, dtype="float64", seed=5) for t in operands]
    _, slope = rl.func.jvp(attend, tuple(operands), tuple(tangents))
    step = 1e-6
    ahead, behind = (
        attend(*(t + sign * step * d for t, d in zip(operands, tangents, strict=True)))
        for sign in (1, -1)
    )
    near = (ahead - behind) / (2 * step)
    np.testing.assert_allclose(slope.numpy(), near.numpy(), atol=1e-7)


def test_compiled_attention_has_the_same_bits():
    operands = [drawn(2, 3, 70, 16).requires_grad_() for _ in range(3)]

    def step(*given):
        out = F.scaled_dot_product_attention(*given, is_causal=True) * 2
        return out, *rl.autograd.grad(out.sum(), given)

    compiled = rl.compile(step)
    for _ in range(3):
        for ours, eager in zip(compiled(*operands), step(*operands), strict=True):
            np.testing.assert_array_equal(ours.detach().numpy(), eager.detach().numpy())


@pytest.mark.parametrize("fault", ["dims", "dropout", "heads", "types"])
def test_what_has_no_blocks_is_refused(fault):
    query = drawn(2, 4, 20, 8)
    function = ops._scaled_dot_product_flash_attention_for_cpu
    calls = {
        "dims": (lambda: function(query[0], query[0], query[0]), "Accept only 4 dims"),
        "dropout": (lambda: function(query, query, query, 0.1), "do not support"),
        "heads": (lambda: function(query, query[:, :3], query[:, :3]), "Q/K/V should"),
        "types": (lambda: function(query, query.double(), query), "Q/K/V should"),
    }
    call, words = calls[fault]
    with pytest.raises(RuntimeError, match=words):
        call()
