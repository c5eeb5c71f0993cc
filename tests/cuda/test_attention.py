"""Attention by matrix units, launched on an imagined card, is attention in float64."""

from __future__ import annotations

import contextlib
import math
import warnings

import numpy as np
import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight.nn.attention import SDPBackend, sdpa_kernel
from rushlight.operators.attention import attention as family
from rushlight.runtime.cuda import code_cache
from tests.codegen.test_attention import philox_words
from tests.cuda import executor

EDGES = [1, 16, 17, 63, 64, 65]  # around products and blocks
HEADS = [(8, 8), (1, 3), (32, 33), (40, 64), (64, 96), (72, 128), (128, 7), (256, 136)]
ROUNDING = {"float16": 2e-3, "bfloat16": 1.6e-2}


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Where machine code is kept from test to test, and the texts that it was made of."""
    return tmp_path_factory.mktemp("kernels"), {}


@pytest.fixture(autouse=True)
def _machine(machine, monkeypatch, request, kept):
    if "changed" not in request.fixturenames:
        folder, machine.texts = kept
        monkeypatch.setattr(code_cache, "folder", lambda: str(folder))
    machine.start(cards=1, memory=1 << 27)
    monkeypatch.setenv("RUSHLIGHT_CUDA", "1")


def by_units(machine):
    return [name for name in machine.launched() if name.startswith("attention_")]


def drawn(*sizes, dtype=rl.float16, seed=0):
    rl.manual_seed(seed)
    return rl.randn(sizes).to(dtype)


def exact(query, key, value, mask=None, causal=False, scale=None):
    """The same in double precision on the host."""
    if query.ndim > 2 and key.shape[-3] != query.shape[-3]:
        shared = query.shape[-3] // key.shape[-3]
        key, value = (t.repeat_interleave(shared, -3) for t in (key, value))
    query, key, value = (t.double() for t in (query, key, value))
    if mask is not None and mask.dtype is not rl.bool:
        mask = mask.double()
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    return family._composed(query, key, value, mask, 0.0, causal, scale)


def agrees(machine, query, key, value, mask=None, causal=False, scale=None, times=1):
    """Compares results on the card with exact ones; the kernels that were launched."""
    machine.fake.calls.clear()
    gqa = query.ndim > 2 and key.shape[-3] != query.shape[-3]
    there = [t if t is None else t.cuda() for t in (query, key, value, mask)]
    found = F.scaled_dot_product_attention(
        *there, is_causal=causal, scale=scale, enable_gqa=gqa
    )
    names = by_units(machine)
    assert len(names) == times
    wanted = exact(query, key, value, mask, causal, scale)
    assert found.dtype is query.dtype and found.shape == wanted.shape
    close = ROUNDING[query.dtype.name] * max(1.0, wanted.abs().max().item())
    gap = (found.cpu().double() - wanted).abs().max().item()
    assert gap <= close, gap
    return names


@pytest.mark.parametrize("keys", EDGES)
@pytest.mark.parametrize("queries", EDGES)
def test_every_end_of_a_block(machine, queries, keys):
    operands = [drawn(1, 1, n, 16, seed=n) for n in (queries, keys, keys)]
    agrees(machine, *operands)
    agrees(machine, *operands, causal=True)


@pytest.mark.parametrize("depth, width", HEADS)
def test_every_size_of_a_head(machine, depth, width):
    operands = drawn(1, 2, 20, depth), drawn(1, 2, 40, depth), drawn(1, 2, 40, width)
    agrees(machine, *operands)


def masked(dtype):
    """Queries, keys and values, and masks of every kind by their names."""
    operands = [drawn(2, 2, n, 24, dtype=dtype, seed=n) for n in (70, 90, 90)]
    masks = {
        "bool": drawn(2, 1, 70, 90) > -0.5,
        "own": drawn(70, 90, dtype=dtype),
        "float32": drawn(1, 2, 70, 90, dtype=rl.float32),
        "of keys": drawn(2, 1, 1, 90) > -0.5,
    }
    return operands, masks


@pytest.mark.parametrize("mask", ["", "causal", "bool", "own", "float32", "of keys"])
@pytest.mark.parametrize("dtype", ROUNDING)
def test_every_type_and_mask(machine, dtype, mask):
    operands, masks = masked(getattr(rl, dtype))
    agrees(machine, *operands, masks.get(mask), causal=mask == "causal", scale=-0.3)


@pytest.mark.parametrize("heads", [1, 2])
def test_heads_of_keys_serve_several_of_queries(machine, heads):
    operands = drawn(2, 4, 20, 16), drawn(2, heads, 33, 16), drawn(2, heads, 33, 16)
    agrees(machine, *operands)


def layouts(tensor):
    yield tensor.transpose(1, 2).contiguous().transpose(1, 2)
    yield tensor.transpose(2, 3).contiguous().transpose(2, 3)
    yield tensor.repeat_interleave(2, -1)[..., ::2]
    yield rl.cat([tensor, tensor], 2)[:, :, tensor.shape[2] :]
    yield tensor[:1].expand(*tensor.shape)
    yield rl.cat([tensor[..., :1], tensor], 3)[..., 1:]


@pytest.mark.parametrize("number", range(6))
def test_every_layout(machine, number):
    operands = [list(layouts(drawn(2, 3, n, 24, seed=n)))[number] for n in (17, 20, 20)]
    agrees(machine, *operands, list(layouts(drawn(2, 3, 17, 20) > -1))[number])


@pytest.mark.parametrize("lead", [(), (3,), (2, 1, 2)])
def test_any_leading_dimensions(machine, lead):
    agrees(machine, *(drawn(*lead, n, 16, seed=n) for n in (20, 30, 30)))


def test_results_lie_as_queries_do(machine):
    query = drawn(2, 20, 3, 16).cuda().transpose(1, 2)
    assert (
        F.scaled_dot_product_attention(query, query, query).stride() == query.stride()
    )


def test_later_blocks_of_keys_are_not_looked_at_where_attention_is_causal(machine):
    query, key, value = (drawn(1, 1, 130, 16, seed=n) for n in range(3))
    key[:, :, 64:] = math.nan
    given = [t.cuda() for t in (query, key, value)]
    found = F.scaled_dot_product_attention(*given, is_causal=True)
    assert not found[:, :, :64].isnan().any() and found[:, :, 64:].isnan().all()


def test_what_softmax_has_no_answer_for(machine):
    query, key, value = (drawn(1, 1, n, 16, seed=n) for n in (20, 33, 33))
    mask = rl.zeros(20, 33)
    mask[0] = -math.inf  # no key: zeros
    mask[1, 1:] = -math.inf  # one key
    mask[2, 5] = math.inf
    mask[3, 7] = math.nan
    mask[4] = 200.0
    mask[5] = -3e38
    given = [t.cuda() for t in (query, key, value, mask)]
    found = F.scaled_dot_product_attention(*given).cpu()[0, 0]
    assert not found[0].any()
    assert rl.equal(found[1], value[0, 0, 0])
    assert found[2:4].isnan().all() and not found[4:].isnan().any()
    wanted = exact(query, key, value)[0, 0]
    assert (found[4].double() - wanted[4]).abs().max() < 4e-3


def test_logarithms_of_masses_are_those_of_scores(machine):
    query, key, value = (drawn(2, 2, n, 16, seed=n) for n in (20, 33, 33))
    mask = drawn(20, 33) > -1
    mask[3] = False
    given = [t.cuda() for t in (query, key, value, mask)]
    attend = rl.ops.aten._scaled_dot_product_efficient_attention
    found = attend(*given, True, scale=0.5)[1].cpu()
    scores = query.double() @ key.double().mT * 0.5
    wanted = scores.masked_fill(~mask, -math.inf).logsumexp(-1)
    assert found.dtype is rl.float32
    assert rl.allclose(found.double(), wanted, atol=1e-4)
    assert attend(*given, False)[1].shape == (2, 2, 0)


@pytest.mark.parametrize(
    "change",
    [
        {"dtype": rl.float32},
        {"dropout_p": 1.0},
        {"dropout_p": 0.5, "depth": 200},
        {"depth": 264},
        {"keys": 0},
        {"older": True},
        {"backend": SDPBackend.MATH},
        {"backend": SDPBackend.FLASH_ATTENTION, "attn_mask": True},
    ],
    ids=str,
)
def test_what_has_no_kernel_goes_by_whole_matrices(machine, change, monkeypatch):
    if change.pop("older", False):
        monkeypatch.setattr("rushlight.runtime.cuda.attention.UNITS_SINCE", 10)
    depth, keys = change.pop("depth", 16), change.pop("keys", 20)
    dtype = change.pop("dtype", rl.float16)
    backend = change.pop("backend", None)
    if change.get("attn_mask"):
        change["attn_mask"] = rl.ones(20, 20, dtype=rl.bool).cuda()
    operands = [drawn(1, 1, n, depth, dtype=dtype).cuda() for n in (20, keys, keys)]
    ways = sdpa_kernel(backend) if backend is not None else contextlib.nullcontext()
    machine.fake.calls.clear()
    with ways:
        found = F.scaled_dot_product_attention(*operands, **change)
    assert not by_units(machine) and found.shape == (1, 1, 20, depth)


@pytest.mark.parametrize(
    "ways", [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION]
)
def test_either_of_pytorch_s_switches_allows_the_kernel(machine, ways):
    with sdpa_kernel(ways):
        agrees(machine, *(drawn(1, 1, 20, 16, seed=n) for n in range(3)))


def learns(machine, query, key, value, mask=None, causal=False, scale=None, times=4):
    """Compares gradients on the card with exact ones; the kernels that were launched."""
    machine.fake.calls.clear()
    gqa = key.shape[-3] != query.shape[-3]
    operands = query, key, value
    ours = [t.cuda().requires_grad_() for t in operands]
    theirs = [t.double().requires_grad_() for t in operands]
    there = None if mask is None else mask.cuda()
    choice = {"is_causal": causal, "scale": scale, "enable_gqa": gqa}
    out = F.scaled_dot_product_attention(*ours, there, **choice)
    grad = drawn(*out.shape, dtype=query.dtype, seed=9)
    found = rl.autograd.grad(out, ours, grad.cuda())
    assert len(by_units(machine)) == times
    result = exact(*theirs, mask, causal, scale)
    wanted = rl.autograd.grad(result, theirs, grad.double())
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype is query.dtype and one.shape == other.shape
        close = 2 * ROUNDING[query.dtype.name] * max(1.0, other.abs().max().item())
        gap = (one.cpu().double() - other).abs().max().item()
        assert gap <= close, gap
    return out


@pytest.mark.parametrize("keys", [1, 17, 64, 65])
@pytest.mark.parametrize("queries", [1, 17, 64, 65])
def test_gradients_at_every_end_of_a_block(machine, queries, keys):
    operands = [drawn(1, 1, n, 16, seed=n) for n in (queries, keys, keys)]
    learns(machine, *operands)
    learns(machine, *operands, causal=True)


@pytest.mark.parametrize("depth, width", [(1, 3), (40, 64), (72, 128), (136, 192)])
def test_gradients_of_every_size_of_a_head(machine, depth, width):
    operands = drawn(1, 1, 20, depth), drawn(1, 1, 40, depth), drawn(1, 1, 40, width)
    learns(machine, *operands)


def test_gradients_of_longer_heads_are_those_of_whole_matrices(machine):
    operands = drawn(1, 1, 20, 200), drawn(1, 1, 40, 200), drawn(1, 1, 40, 8)
    learns(machine, *operands, times=1)


@pytest.mark.parametrize("mask", ["causal", "bool", "own", "float32", "of keys"])
@pytest.mark.parametrize("dtype", ROUNDING)
def test_gradients_with_every_type_and_mask(machine, dtype, mask):
    operands, masks = masked(getattr(rl, dtype))
    if mask == "bool":
        masks["bool"][:, :, 3] = False  # a query that sees no key
    learns(machine, *operands, masks.get(mask), causal=mask == "causal", scale=-0.3)


def test_gradients_of_keys_that_serve_several_heads(machine):
    operands = drawn(2, 4, 20, 16), drawn(2, 2, 70, 16), drawn(2, 2, 70, 16)
    learns(machine, *operands, causal=True)


def test_gradients_of_other_layouts(machine):
    query, key, value = (drawn(2, 20, 3, 16, seed=n).transpose(1, 2) for n in range(3))
    learns(machine, query, key.mT.contiguous().mT, value[:1].expand(2, -1, -1, -1))


def test_gradients_are_the_same_bits_each_time(machine):
    operands = [
        drawn(1, 2, n, 16, seed=n).cuda().requires_grad_() for n in (70, 90, 90)
    ]
    grad = drawn(1, 2, 70, 16, seed=9).cuda()
    found = [
        rl.autograd.grad(F.scaled_dot_product_attention(*operands), operands, grad)
        for _ in range(2)
    ]
    for one, other in zip(*found, strict=True):
        assert rl.equal(one.cpu(), other.cpu())


@pytest.mark.parametrize(
    "wanted, times", [((0,), 2), ((1,), 3), ((2,), 2), ((0, 2), 3)]
)
def test_only_wanted_gradients_are_computed(machine, wanted, times):
    operands = [drawn(1, 1, n, 16, seed=n).cuda() for n in (20, 30, 30)]
    learning = [operands[k].requires_grad_() for k in wanted]
    machine.fake.calls.clear()
    out = F.scaled_dot_product_attention(*operands)
    found = rl.autograd.grad(out, learning, rl.ones_like(out))
    assert len(by_units(machine)) == times
    assert [g.shape for g in found] == [t.shape for t in learning]


def second_gradients(out, operands):
    """Gradients of the squares of the gradients of a result's squares."""
    first = rl.autograd.grad(out.square().sum(), operands, create_graph=True)
    return rl.autograd.grad(sum(g.square().sum() for g in first), operands)


def assert_close_to_exact(found, exact):
    for one, other in zip(found, exact, strict=True):
        close = 2e-2 * max(1.0, other.abs().max().item())
        assert (one.cpu().double() - other).abs().max() < close


def test_gradients_of_gradients_are_those_of_whole_matrices(machine):
    given = [drawn(1, 1, n, 8, seed=n) for n in (5, 7, 7)]
    results = []
    for operands in ([t.cuda() for t in given], [t.double() for t in given]):
        operands = [t.requires_grad_() for t in operands]
        attend = F.scaled_dot_product_attention if operands[0].is_cuda else exact
        out = attend(*operands)
        results.append(second_gradients(out, operands))
    assert_close_to_exact(*results)


def test_gradients_of_a_batch_of_batches_are_one_launch_each(machine):
    query, key, value, grad = (
        drawn(3, 1, 2, n, 16, seed=n + k).cuda() for k, n in enumerate((20, 30, 30, 20))
    )
    attend = rl.ops.aten._scaled_dot_product_efficient_attention
    backward = rl.ops.aten._scaled_dot_product_efficient_attention_backward

    def gradients(query, key, value, grad):
        out, *more = attend(query, key, value, None, True)
        rest = None, out, *more, 0.0, [True, True, True, False]
        return backward(grad, query, key, value, *rest)[:3]

    machine.fake.calls.clear()
    found = rl.func.vmap(gradients)(query, key, value, grad)
    assert len(by_units(machine)) == 4
    alone = gradients(query[1], key[1], value[1], grad[1])
    for many, one in zip(found, alone, strict=True):
        assert rl.equal(many[1].cpu(), one.cpu())


def test_a_batch_of_batches_is_one_launch(machine):
    operands = [drawn(3, 1, 2, n, 16, seed=n) for n in (20, 30, 30)]
    machine.fake.calls.clear()
    there = [t.cuda() for t in operands]
    found = rl.func.vmap(F.scaled_dot_product_attention)(*there)
    assert len(by_units(machine)) == 1
    wanted = exact(*operands)
    assert (found.cpu().double() - wanted).abs().max() < 4e-3


def growths(shape, chance, offset, seed=0):
    """What dropout multiplies weights by, made on the host."""
    places = np.arange(math.prod(shape)) + offset
    words = philox_words(places, seed).reshape(shape)
    numbers = words.astype(np.float32) * np.float32(2.0**-32) + np.float32(2.0**-33)
    return rl.from_numpy((numbers > np.float32(chance)) / (1 - chance))


def dropped(query, key, value, growth, mask=None, causal=False):
    """Attention in double precision, whose weights are multiplied by something."""
    if key.shape[1] != query.shape[1]:
        shared = query.shape[1] // key.shape[1]
        key, value = (t.repeat_interleave(shared, 1) for t in (key, value))
    scale = 1 / math.sqrt(query.shape[-1])
    weights = family._weights(query, key, mask, causal, scale)
    return weights * growth @ value


def drops(machine, query, key, value, mask=None, causal=False, times=4, chance=0.3):
    """Compares results and gradients under dropout with exact ones."""
    rl.cuda.manual_seed(77)
    generator = rl.backends.backend_for("cuda").generator(rl.device("cuda", 0))
    generator.set_offset(8)
    operands = query, key, value
    ours = [t.cuda().requires_grad_() for t in operands]
    theirs = [t.double().requires_grad_() for t in operands]
    there = None if mask is None else mask.cuda()
    gqa = key.shape[1] != query.shape[1]
    machine.fake.calls.clear()
    out = F.scaled_dot_product_attention(
        *ours, there, chance, is_causal=causal, enable_gqa=gqa
    )
    shape = *query.shape[:3], key.shape[2]
    assert generator.get_offset() == 8 + -(-math.prod(shape) // 4) * 4
    grad = drawn(*out.shape, dtype=query.dtype, seed=9)
    found = rl.autograd.grad(out, ours, grad.cuda())
    names = by_units(machine)
    assert len(names) == times and all("_dropout" in name for name in names)
    growth = growths(shape, chance, 8, 77)
    mask = mask if mask is None or mask.dtype is rl.bool else mask.double()
    wanted = dropped(*theirs, growth, mask, causal)
    gradients = rl.autograd.grad(wanted, theirs, grad.double())
    for one, other in zip((out, *found), (wanted, *gradients), strict=True):
        close = 2 * ROUNDING[query.dtype.name] * max(1.0, other.abs().max().item())
        assert (one.detach().cpu().double() - other).abs().max().item() <= close


@pytest.mark.parametrize("sizes", [(1, 1), (17, 65), (65, 64), (33, 30)])
def test_dropout_leaves_the_same_weights_out_of_results_and_gradients(machine, sizes):
    queries, keys = sizes
    operands = [drawn(2, 2, n, 16, seed=n) for n in (queries, keys, keys)]
    drops(machine, *operands)
    drops(machine, *operands, causal=True)


@pytest.mark.parametrize("dtype", ROUNDING)
def test_dropout_beside_masks_and_shared_heads(machine, dtype):
    dtype = getattr(rl, dtype)
    operands = [
        drawn(1, heads, n, 24, dtype=dtype, seed=n)
        for heads, n in ((4, 40), (2, 70), (2, 70))
    ]
    drops(machine, *operands, drawn(1, 1, 40, 70) > -0.5)
    drops(machine, *operands, drawn(40, 70, dtype=rl.float32))


@pytest.mark.parametrize(
    "depth, width, times", [(40, 128, 4), (136, 40, 1), (192, 192, 1)]
)
def test_dropout_in_every_size_of_a_head(machine, depth, width, times):
    operands = drawn(1, 1, 20, depth), drawn(1, 1, 40, depth), drawn(1, 1, 40, width)
    drops(machine, *operands, times=times)


def test_dropout_is_the_same_bits_for_the_same_seed_and_other_ones_after(machine):
    operands = [drawn(1, 2, n, 16, seed=n).cuda() for n in (20, 33, 33)]
    found = []
    for seed in (5, 5, 6):
        rl.cuda.manual_seed(seed)
        for _ in range(2):
            found.append(F.scaled_dot_product_attention(*operands, None, 0.5).cpu())
    same, different = [(0, 2), (1, 3)], [(0, 1), (2, 4), (3, 5)]
    assert all(rl.equal(found[i], found[j]) for i, j in same)
    assert not any(rl.equal(found[i], found[j]) for i, j in different)


def test_gradients_of_gradients_leave_out_the_same_weights(machine):
    given = [drawn(1, 1, n, 8, seed=n) for n in (5, 7, 7)]
    rl.cuda.manual_seed(3)
    growth = growths((1, 1, 5, 7), 0.4, 0, 3)
    results = []
    for operands in ([t.cuda() for t in given], [t.double() for t in given]):
        operands = [t.requires_grad_() for t in operands]
        if operands[0].is_cuda:
            out = F.scaled_dot_product_attention(*operands, None, 0.4)
        else:
            out = dropped(*operands, growth)
        results.append(second_gradients(out, operands))
    assert_close_to_exact(*results)


def test_seeds_and_offsets_of_dropout_are_on_the_host(machine):
    attend = rl.ops.aten._scaled_dot_product_efficient_attention
    operands = [drawn(1, 1, n, 8, seed=n).cuda() for n in (5, 6, 6)]
    rl.cuda.manual_seed((1 << 63) + 9)
    for offset in (0, 32):
        *_, seed, place = attend(*operands, None, True, 0.25)
        assert not seed.is_cuda and seed.item() == 9 - (1 << 63)
        assert place.item() == offset
    with pytest.raises(RuntimeError, match="at least 0 and below 1, but got 1.0"):
        attend(*operands, None, True, 1.0)


@pytest.mark.parametrize("randomness", ["different", "same"])
def test_batches_of_examples_have_draws_of_their_own_where_wanted(machine, randomness):
    attend = rl.ops.aten._scaled_dot_product_efficient_attention
    backward = rl.ops.aten._scaled_dot_product_efficient_attention_backward
    many = [drawn(1, 2, n, 8, seed=n).expand(3, 1, 2, n, 8) for n in (9, 12, 12)]
    many = [t.cuda() for t in many]

    def gradients(*operands):
        out, *more = attend(*operands, None, True, 0.5)
        rest = None, out, *more, 0.5, [True, True, True, False]
        return out, *backward(rl.ones_like(out), *operands, *rest)[:3], *more[1:]

    rl.cuda.manual_seed(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        *found, seeds, offsets = rl.func.vmap(gradients, randomness=randomness)(*many)
    same = randomness == "same"
    assert seeds.tolist() == [1] * 3
    assert offsets.tolist() == ([0] * 3 if same else [0, 216, 432])
    rl.cuda.manual_seed(1)
    for n in range(3):
        if same:
            rl.cuda.manual_seed(1)
        *alone, _, _ = gradients(*(t[n] for t in many))
        for one, other in zip(found, alone, strict=True):
            assert rl.equal(one[n].cpu(), other.cpu())
    with pytest.raises(RuntimeError, match="random operation"):
        rl.func.vmap(gradients)(*many)


def names_of_groups(names):
    return [name for name in names if name.startswith("attention_groups_")]


@pytest.mark.parametrize("dtype", ROUNDING)
@pytest.mark.parametrize("depth, width", [(16, 24), (72, 128)])
def test_many_queries_go_by_groups(machine, depth, width, dtype):
    dtype = getattr(rl, dtype)
    operands = [
        drawn(1, 2, n, size, dtype=dtype, seed=n)
        for n, size in ((129, depth), (70, depth), (70, width))
    ]
    assert names_of_groups(agrees(machine, *operands))
    agrees(machine, *operands, causal=True)
    agrees(machine, *operands, drawn(1, 1, 129, 70) > -0.5)
    agrees(machine, *operands, drawn(129, 70, dtype=rl.float32))


def test_gradients_and_dropout_of_what_groups_gave(machine):
    operands = [
        drawn(1, heads, n, 24, seed=n) for heads, n in ((2, 130), (1, 66), (1, 66))
    ]
    learns(machine, *operands, causal=True)
    assert names_of_groups(by_units(machine))
    drops(machine, *operands)
    assert names_of_groups(by_units(machine))


@pytest.mark.parametrize("major", [8, 10])
def test_other_generations_attend_by_warps(machine, major):
    machine.start(cards=1, memory=1 << 27, architecture=(major, 0))
    operands = [drawn(1, 1, 130, 16, seed=n) for n in range(3)]
    assert not names_of_groups(agrees(machine, *operands))


@pytest.fixture
def rounded(monkeypatch):
    """Products of float32 may be rounded to TF32, which has the digits of halves."""
    before = rl.get_float32_matmul_precision()
    rl.set_float32_matmul_precision("high")
    monkeypatch.setitem(ROUNDING, "float32", ROUNDING["float16"])
    yield
    rl.set_float32_matmul_precision(before)


@pytest.mark.parametrize("depth, width", [(1, 3), (16, 128), (72, 40)])
def test_floats_go_by_units_where_products_may_be_rounded(
    machine, rounded, depth, width
):
    operands = [
        drawn(2, 2, n, size, dtype=rl.float32, seed=n)
        for n, size in ((33, depth), (70, depth), (70, width))
    ]
    (name,) = agrees(machine, *operands)
    assert "float32" in name
    agrees(machine, *operands, causal=True)
    agrees(machine, *operands, drawn(2, 1, 33, 70) > -0.5)
    agrees(machine, *operands, drawn(33, 70, dtype=rl.float32))


@pytest.mark.parametrize("depth, width", [(1, 3), (64, 40)])
def test_gradients_of_floats_go_by_units(machine, rounded, depth, width):
    operands = [
        drawn(2, heads, n, size, dtype=rl.float32, seed=n)
        for heads, n, size in ((4, 33, depth), (2, 70, depth), (2, 70, width))
    ]
    learns(machine, *operands, causal=True)
    if depth == 1:  # what follows is of every size alike
        learns(machine, *operands, drawn(33, 70, dtype=rl.float32))
        drops(machine, *operands)


@pytest.mark.parametrize("number", range(6))
def test_every_layout_of_floats(machine, rounded, number):
    operands = [
        list(layouts(drawn(2, 3, n, 12, dtype=rl.float32, seed=n)))[number]
        for n in (17, 20, 20)
    ]
    agrees(machine, *operands)


def test_gradients_of_longer_heads_of_floats_are_those_of_whole_matrices(
    machine, rounded
):
    operands = [drawn(1, 1, n, 72, dtype=rl.float32, seed=n) for n in (20, 40, 40)]
    learns(machine, *operands, times=1)
    drops(machine, *operands, times=1)


def test_floats_are_not_rounded_in_longer_heads_or_by_flash_kernels(machine, rounded):
    machine.fake.calls.clear()
    long = [drawn(1, 1, n, 132, dtype=rl.float32, seed=n).cuda() for n in range(1, 4)]
    F.scaled_dot_product_attention(long[0], long[1], long[1])
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        short = [t[..., :16] for t in long]
        F.scaled_dot_product_attention(short[0], short[1], short[1])
    assert not by_units(machine)


@pytest.fixture
def changed(machine, monkeypatch):
    """Leaves a line out of kernels of attention; returns where such lines were."""

    def without(pattern, number):
        places: list = []
        remember = machine.executor.remember

        def shortened(text):
            if "@attention_" in text:
                places[:] = [match.span() for match in pattern.finditer(text)]
                text = text[: places[number][0]] + text[places[number][1] :]
            remember(text)

        monkeypatch.setattr(machine.executor, "remember", shortened)
        return places

    return without


@pytest.mark.parametrize("name, number", [("BARRIER", 0), ("BARRIER", 1), ("AWAIT", 0)])
def test_every_wait_is_needed(machine, name, number, monkeypatch, changed):
    places = changed(getattr(executor, name), number)
    operands = [drawn(1, 2, n, 16, seed=n) for n in (70, 150, 150)]
    wanted = exact(*operands)
    there = [t.cuda() for t in operands]
    worst = 0.0
    # one block does the work of several
    monkeypatch.setattr("rushlight.runtime.cuda.device_kernel.MOST_BLOCKS", 2)
    for _ in range(12):
        found = F.scaled_dot_product_attention(*there).cpu().double()
        gap = (found - wanted).abs().max().item()
        worst = max(worst, math.inf if gap != gap else gap)
        if worst > 0.1:
            break
    assert len(places) == (2 if name == "BARRIER" else 1)
    assert worst > 0.1
