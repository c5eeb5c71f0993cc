"""What a program loads of its kernels on a card: a module for each once, then one for all."""

from __future__ import annotations

import subprocess

import pytest

import rushlight as rl
from rushlight.nn import functional as F
from rushlight.runtime.cuda import code_cache, contexts
from tests.codegen.ptxas import PTXAS
from tests.cuda.test_training import LeNet


@pytest.fixture
def step(machine):
    """Runs a first step of LeNet in a new process's place: its loss, and how many modules
    the driver loaded."""

    def run(**options):
        machine.start(cards=1, memory=1 << 28, **options)
        rl.manual_seed(0)
        model = LeNet().to("cuda")
        optimizer = rl.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        x, y = rl.rand(8, 1, 12, 12).to("cuda"), rl.randint(0, 10, (8,)).to("cuda")
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.item(), machine.fake.modules

    return run


def bundles():
    """The files of bundles."""
    return code_cache.bundle_paths()


def test_a_program_loads_one_module_once_it_has_run(step):
    loss, count = step()
    assert count > code_cache.SEPARATE
    contexts.join_modules()
    again, found = step()
    assert (again, found) == (loss, 1)
    assert code_cache.counts["assembled"] and not contexts.card(0).modules.join()
    assert len(bundles()) == 1


def test_what_a_bundle_lacks_is_loaded_beside_it_until_that_is_too_much(step):
    step()
    contexts.join_modules()
    step()
    x = rl.ones(3, device="cuda")
    for turn in (rl.exp, rl.sin, rl.cos, rl.log, rl.sqrt):
        turn(x)
    assert len(contexts.card(0).modules.modules) > code_cache.SEPARATE
    contexts.join_modules()
    assert len(bundles()) == 2
    assert step()[1] == 1  # all that the step needs is in the newest


def test_a_bundle_that_is_damaged_or_another_driver_s_is_not_loaded(step):
    loss, count = step()
    contexts.join_modules()
    (path,) = bundles()
    with open(path, "r+b") as file:
        file.seek(200)
        file.write(b"\0\0\0\0")
    assert step() == (loss, count)
    contexts.join_modules()
    assert step() == (loss, 1)
    assert step(version=13020) == (loss, count)


def test_no_more_bundles_are_kept_than_there_is_use_for(step, monkeypatch):
    monkeypatch.setattr(code_cache, "MOST_BUNDLES", 1)
    step()
    contexts.join_modules()
    rl.ones(3, device="cuda").exp()
    monkeypatch.setattr(code_cache, "SEPARATE", 0)
    contexts.join_modules()
    assert len(bundles()) == 1


@pytest.mark.skipif(PTXAS is None, reason="ptxas is not on this machine")
def test_nvlink_joins_the_texts_of_a_bundle(step, machine, tmp_path):
    """The driver's linker is nvlink: it takes texts that were assembled to be linked."""
    step()
    known = [f for f in machine.fake.live.values() if hasattr(f, "most_threads")]
    parts = []
    for n, function in enumerate(known):
        source = tmp_path / f"{n}.ptx"
        source.write_text(function.text)
        parts.append(str(source.with_suffix(".o")))
        command = [PTXAS, "-c", "-arch=sm_90", str(source), "-o", parts[-1]]
        subprocess.run(command, check=True)
    whole = tmp_path / "whole"
    linker = PTXAS.removesuffix("ptxas") + "nvlink"
    subprocess.run([linker, "-arch=sm_90", *parts, "-o", str(whole)], check=True)
    image = whole.read_bytes()
    assert all(b".text." + f.name.encode() in image for f in known)
