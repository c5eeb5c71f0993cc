"""Kernels run on every generation of devices: by their own targets, within their registers."""

from __future__ import annotations

import re
import subprocess

import pytest

import rushlight as rl
from rushlight.codegen import target
from tests.codegen.ptxas import PTXAS
from tests.cuda.driver import CUresult, Failure

GENERATIONS = [(7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (12, 0)]

pytestmark = pytest.mark.skipif(PTXAS is None, reason="ptxas is not on this machine")


@pytest.fixture(autouse=True)
def _enabled(monkeypatch):
    monkeypatch.setenv("RUSHLIGHT_CUDA", "1")


def programs(device):
    """One of each way to make an entry: elements, lists, rows, spans, blocks."""
    rl.manual_seed(0)
    x = rl.randn(4, 600).to(device)
    wide, halves = rl.randn(70000).to(device), rl.randn(64, 64).bfloat16().to(device)
    short, deep = rl.randn(3, 40).to(device), rl.randn(2, 700).double().to(device)
    yield wide.exp() + wide.sin(), 1e-5
    yield x.softmax(1), 1e-5
    yield wide.sum(), 1e-3
    yield deep.softmax(1), 1e-9
    yield halves * halves + 1, 1e-2
    yield x.cumsum(1), 1e-4
    yield x[:, :300].sort(1).values, 0
    yield short.topk(5).values, 0
    yield x[:, rl.tensor([3, 5, 599], device=device)], 0


@pytest.mark.parametrize("generation", GENERATIONS)
def test_a_generation_runs_kernels_that_are_made_for_it(machine, generation):
    machine.start(memory=1 << 28, architecture=generation)
    card = machine.card()
    for (found, tolerance), (expected, _) in zip(programs("cuda"), programs("cpu")):
        gap = (found.cpu().double() - expected.double()).abs().max().item()
        assert gap <= tolerance * max(1, expected.abs().max().item())
    assert card.target.name == "sm_{}{}".format(*generation)
    texts = [f.text for f in machine.fake.live.values() if hasattr(f, "most_threads")]
    assert texts
    for text in texts:
        assert f".target {card.target.name}\n" in text
        assert ".maxntid" in text


def test_older_drivers_read_the_text_where_the_generation_is_as_old(machine):
    machine.start(architecture=(8, 0), version=11080)
    assert (rl.ones(5, device="cuda") + 1).tolist() == [2.0] * 5
    machine.start(architecture=(10, 0), version=12000)
    with pytest.raises(RuntimeError, match="CUDA_ERROR_UNSUPPORTED_PTX_VERSION"):
        rl.ones(5, device="cuda").sin()


def test_generations_do_not_share_machine_code(machine, tmp_path):
    for generation in ((8, 0), (9, 0)):
        machine.start(architecture=generation)
        (rl.ones(5, device="cuda") + 1).cpu()
    kept = [p.read_bytes() for p in tmp_path.iterdir()]
    for name in (b"sm_80", b"sm_90"):
        assert any(b".target " + name in code for code in kept)


@pytest.mark.parametrize("name", list(target.GPUS))
def test_every_target_is_one_that_the_assembler_knows(name, tmp_path):
    from rushlight.codegen.emit import ptx
    from tests.codegen import grid_kernels

    text = ptx.emit(
        grid_kernels.elementwise("add"),
        grid_kernels.over_rows(grid_kernels.softmax)[0],
        target=target.gpu(name),
    )
    version = target.gpu(name).ptx
    assert f".version {version // 10}.{version % 10}\n.target {name}\n" in text
    (tmp_path / "text.ptx").write_text(text)
    command = [PTXAS, f"-arch={name}", str(tmp_path / "text.ptx"), "-o", "/dev/null"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_an_older_generation_than_all_is_refused():
    assert target.gpu("sm_121").name == "sm_120"
    with pytest.raises(ValueError, match="not made for sm_61: the oldest is sm_75"):
        target.gpu("sm_61")


def test_the_imagined_driver_refuses_what_a_card_would(machine):
    fake = machine.start(architecture=(8, 0))
    (rl.ones(5, device="cuda") + 1).cpu()
    function = next(
        f for f in fake.live.values() if getattr(f, "name", "").startswith("add")
    )
    assert function.most_threads == 256
    for old, new, code in (
        (".target sm_80", ".target sm_90", CUresult.CUDA_ERROR_NO_BINARY_FOR_GPU),
        (".target sm_80", ".target sm_80a", CUresult.CUDA_ERROR_INVALID_PTX),
        ("add.", "odd.", CUresult.CUDA_ERROR_INVALID_PTX),
    ):
        with pytest.raises(Failure) as found:
            fake.assemble(function.text.replace(old, new))
        assert found.value.code == code
    launch = function.number, 1, 1, 1, 512, 1, 1, 0, None, None, None
    code = fake.launch_from_c(*launch)
    assert code == CUresult.CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES


def test_blocks_of_rows_in_doubles_have_registers_enough(machine):
    machine.start(memory=1 << 28)
    x = rl.randn(3, 9000).double()
    for function in (rl.logsumexp, rl.softmax, rl.var):
        found = function(x.to("cuda"), 1).cpu()
        assert (found - function(x, 1)).abs().max() < 1e-9
    blocks = [a[2][0] for n, a in machine.fake.calls if n == "cuLaunchKernel"]
    assert max(blocks) == 256
    bounds = {
        int(n)
        for f in machine.fake.live.values()
        if hasattr(f, "most_threads")
        for n in re.findall(r"\.maxntid (\d+)", f.text)
    }
    assert bounds == {256}
