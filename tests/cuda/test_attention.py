"""Attention by matrix units, launched on an imagined card, is attention in float64."""

from __future__ import annotations

import contextlib
import math

import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight.nn.attention import SDPBackend, sdpa_kernel
from rushlight.ops import attention as family
from tests.cuda import executor
from tests.cuda.driver import CUfunction

EDGES = [1, 16, 17, 63, 64, 65]  # around products and blocks
HEADS = [(8, 8), (1, 3), (32, 33), (40, 64), (64, 96), (72, 128), (128, 7), (256, 136)]
ROUNDING = {"float16": 2e-3, "bfloat16": 1.6e-2}


@pytest.fixture(autouse=True)
def _machine(machine, monkeypatch):
    machine.start(cards=1, memory=1 << 27)
    monkeypatch.setenv("RUSHLIGHT_CUDA", "1")


def launched(machine):
    """The names of the entries that were launched."""
    calls = machine.fake.calls
    numbers = [args[0] for name, args in calls if name == "cuLaunchKernel"]
    return [machine.fake.known(CUfunction, number).name for number in numbers]


def by_units(machine):
    return [name for name in launched(machine) if name.startswith("attention_")]


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


@pytest.mark.parametrize("mask", ["", "causal", "bool", "own", "float32", "of keys"])
@pytest.mark.parametrize("dtype", ROUNDING)
def test_every_type_and_mask(machine, dtype, mask):
    dtype = getattr(rl, dtype)
    operands = [drawn(2, 2, n, 24, dtype=dtype, seed=n) for n in (70, 90, 90)]
    masks = {
        "bool": drawn(2, 1, 70, 90) > -0.5,
        "own": drawn(70, 90, dtype=dtype),
        "float32": drawn(1, 2, 70, 90, dtype=rl.float32),
        "of keys": drawn(2, 1, 1, 90) > -0.5,
    }
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
        {"dropout_p": 0.5},
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
        monkeypatch.setattr("rushlight.backends.nvidia.attention.UNITS_SINCE", 10)
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


def test_gradients_are_those_of_whole_matrices(machine):
    given = [drawn(1, 2, n, 20, seed=n) for n in (30, 40, 40)]
    ours = [t.cuda().requires_grad_() for t in given]
    theirs = [t.double().requires_grad_() for t in given]
    grad = drawn(1, 2, 30, 20, seed=9)
    out = F.scaled_dot_product_attention(*ours, is_causal=True)
    found = rl.autograd.grad(out, ours, grad.cuda())
    wanted = rl.autograd.grad(exact(*theirs, causal=True), theirs, grad.double())
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype is rl.float16
        assert (one.cpu().double() - other).abs().max() < 5e-3


def test_a_batch_of_batches_is_one_launch(machine):
    operands = [drawn(3, 1, 2, n, 16, seed=n) for n in (20, 30, 30)]
    machine.fake.calls.clear()
    there = [t.cuda() for t in operands]
    found = rl.func.vmap(F.scaled_dot_product_attention)(*there)
    assert len(by_units(machine)) == 1
    wanted = exact(*operands)
    assert (found.cpu().double() - wanted).abs().max() < 4e-3


def without(machine, monkeypatch, pattern, number):
    """Leaves a line out of kernels of attention; returns where such lines were."""
    places: list = []
    remember = machine.executor.remember

    def changed(text):
        if "@attention_" in text:
            places[:] = [match.span() for match in pattern.finditer(text)]
            text = text[: places[number][0]] + text[places[number][1] :]
        remember(text)

    monkeypatch.setattr(machine.executor, "remember", changed)
    return places


@pytest.mark.parametrize("name, number", [("BARRIER", 0), ("BARRIER", 1), ("AWAIT", 0)])
def test_every_wait_is_needed(machine, name, number, monkeypatch):
    places = without(machine, monkeypatch, getattr(executor, name), number)
    operands = [drawn(1, 2, n, 16, seed=n) for n in (70, 150, 150)]
    wanted = exact(*operands)
    there = [t.cuda() for t in operands]
    worst = 0.0
    # one block does the work of several
    monkeypatch.setattr("rushlight.backends.nvidia.kernels.MOST_BLOCKS", 2)
    for _ in range(12):
        found = F.scaled_dot_product_attention(*there).cpu().double()
        gap = (found - wanted).abs().max().item()
        worst = max(worst, math.inf if gap != gap else gap)
        if worst > 0.1:
            break
    assert len(places) == (2 if name == "BARRIER" else 1)
    assert worst > 0.1
