"""Products by warpgroups' units, launched on an imagined card without cuBLASLt."""

from __future__ import annotations

import itertools

import pytest

import rushlight as rl
from rushlight.dispatch import launch_cache
from rushlight.kernels.matmul import wgmma
from rushlight.runtime.cuda import code_cache, libraries, matmul
from tests.cuda.test_units import whole

SIZES = [(64, 64, 64), (130, 72, 90), (70, 200, 321)]
HALVES = (rl.float16, rl.bfloat16)


@pytest.fixture(autouse=True)
def _machine(machine, monkeypatch):
    machine.start(cards=1, memory=1 << 27)
    monkeypatch.setenv("RUSHLIGHT_CUDA", "1")
    libraries.CUBLAS_LT.found, libraries.CUBLAS_LT.missing = None, "not installed"


def lying(matrix, turned):
    """A matrix there, whose rows lie along the depth or, turned, whose columns do."""
    rows, depth = matrix.shape
    pad = rl.nn.functional.pad
    if turned:
        room = pad(matrix, (0, 0, 0, -rows % 8)).t().contiguous().cuda()
        return room.t()[:rows]
    return pad(matrix, (0, -depth % 8)).cuda()[:, :depth]


def by_groups(machine, call, *operands):
    """A call's result, and the entries of groups that were launched for it."""
    machine.fake.calls.clear()
    found = call(*operands).cpu()
    return found, [n for n in machine.launched() if n.startswith("groups_")]


@pytest.mark.parametrize("kind", HALVES, ids=lambda k: k.name)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_groups_multiply_factors_that_lie_either_way(machine, sizes, kind):
    rows, columns, depth = sizes
    a, b = whole(rows, depth, kind=kind), whole(columns, depth, kind=kind, seed=1)
    wanted = (a.double() @ b.double().t()).to(kind)
    for sides in itertools.product((False, True), repeat=2):
        x, y = (lying(*each) for each in zip((a, b), sides, strict=True))
        found, names = by_groups(machine, lambda x, y: x @ y.t(), x, y)
        assert rl.equal(found, wanted)
        ends = "".join("_turned" if side else "_plain" for side in sides)
        assert len(names) == 1 and names[0].endswith(ends)


def test_groups_scale_add_and_take_batches(machine):
    a, b = (whole(2, 72, 80, kind=rl.float16, seed=n) for n in range(2))
    c = whole(72, 72, kind=rl.float16, seed=2)
    for call in (
        lambda a, b, c: rl.addmm(c, a[0], b[0].mT, beta=2, alpha=0.5),
        lambda a, b, c: rl.baddbmm(c, a, b.mT, beta=-1),
        lambda a, b, c: rl.bmm(a, b.mT.contiguous()),
        lambda a, b, c: rl.nn.functional.linear(a, b[1], c[0]),
    ):
        found, names = by_groups(machine, call, *(t.cuda() for t in (a, b, c)))
        wanted = call(*(t.double() for t in (a, b, c)))
        assert names and rl.equal(found, wanted.half())


@pytest.mark.parametrize("tile", wgmma.TILES, ids=str)
def test_bits_do_not_depend_on_the_tile(machine, tile, monkeypatch):
    rl.manual_seed(0)
    a, b = rl.randn(192, 136, dtype=rl.bfloat16), rl.randn(136, 328, dtype=rl.bfloat16)
    there = a.cuda(), b.cuda()
    first, _ = by_groups(machine, rl.matmul, *there)
    monkeypatch.setattr(wgmma, "tile_for", lambda *facts: tile)
    launch_cache.forget()
    found, names = by_groups(machine, rl.matmul, *there)
    assert f"_{tile.rows}_{tile.columns}_" in names[0]
    assert rl.equal(found, first)
    assert rl.allclose(found.double(), a.double() @ b.double(), rtol=1e-2, atol=1e-2)


def test_what_copies_of_eight_halves_cannot_bring_is_a_warp_s(machine):
    x = whole(72, 73, kind=rl.float16)
    y = whole(73, 73, kind=rl.float16, seed=1)
    there = x.cuda(), y.cuda()
    for call in (
        lambda x, y: x @ y,  # rows of 73 halves
        lambda x, y: x.reshape(-1)[1 : 1 + 64 * 72].view(64, 72) @ y[:72, :72],
        lambda x, y: x[:63, :64].contiguous() @ y[:64, :64].contiguous(),
        lambda x, y: x[:64, :62].contiguous() @ y[:62, :64].contiguous(),
        lambda x, y: x[:64, :64].contiguous().float() @ y[:64, :64].float(),
    ):
        found, names = by_groups(machine, call, *there)
        assert not names and rl.equal(
            found.double(), call(x.double(), y.double()).to(found.dtype).double()
        )


@pytest.mark.parametrize("major, minor", [(8, 0), (8, 9), (10, 0), (12, 0)])
def test_other_generations_have_no_such_units(machine, major, minor):
    machine.start(cards=1, memory=1 << 27, architecture=(major, minor))
    libraries.CUBLAS_LT.found, libraries.CUBLAS_LT.missing = None, "not installed"
    a = whole(64, 64, kind=rl.float16)
    found, names = by_groups(machine, lambda a: a @ a, a.cuda())
    assert not names and rl.equal(found, (a.float() @ a.float()).half())


def test_a_launch_asks_for_the_memory_that_its_kernel_was_allowed(machine, monkeypatch):
    a = whole(64, 64, kind=rl.float16).cuda()
    monkeypatch.setattr(code_cache, "allow_shared", lambda *facts: None)
    with pytest.raises(RuntimeError, match="cuLaunchKernel.*groups_float16"):
        a @ a


def test_machine_code_from_disk_is_allowed_its_memory_too(machine):
    a = whole(64, 64, kind=rl.float16)
    wanted = (a.float() @ a.float()).half()
    for turn in range(2):
        machine.start(cards=1, memory=1 << 27)
        libraries.CUBLAS_LT.found, libraries.CUBLAS_LT.missing = None, "not installed"
        before = dict(code_cache.counts)
        found, names = by_groups(machine, lambda a: a @ a, a.cuda())
        assert len(names) == 1 and rl.equal(found, wanted)
        assert (code_cache.counts["loaded"] > before["loaded"]) == bool(turn)


@pytest.mark.parametrize("kind", HALVES, ids=lambda k: k.name)
def test_kernels_are_for_one_generation_alone(machine, kind):
    way = matmul.Way("groups", wgmma.TILES[2], 128, (False, False))
    made = matmul.kernel(kind.name, "float32", kind.name, way)
    assert made.target.name == "sm_90a"
