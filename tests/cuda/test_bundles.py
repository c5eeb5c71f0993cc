"""What a program loads of its kernels on a card: a module for each once, then one for all."""

from __future__ import annotations

import os
import subprocess
import zlib

import pytest

import rushlight as rl
from rushlight import te
from rushlight.codegen.emit import device
from rushlight.library import Library
from rushlight.nn import functional as F
from rushlight.runtime.cpu.code_cache import Pack
from rushlight.runtime.cuda import code_cache, contexts, warm
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
    assert code_cache.counts["assembled"] and not contexts.ctx(0).modules.join()
    assert len(bundles()) == 1


def test_what_a_bundle_lacks_is_loaded_beside_it_until_that_is_too_much(step):
    step()
    contexts.join_modules()
    step()
    x = rl.ones(3, device="cuda")
    for turn in (rl.exp, rl.sin, rl.cos, rl.log, rl.sqrt):
        turn(x)
    assert len(contexts.ctx(0).modules.modules) > code_cache.SEPARATE
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


def shifted(number):
    """A function of `te` that adds a number to three."""
    x = te.placeholder((3,), name="x")
    y = te.compute((3,), lambda i: x[i] + float(number), name="y")
    return te.build(te.create_schedule(y), [x, y], target="cuda")


def test_kernels_that_users_call_alike_are_linked_into_one_module(machine):
    library = Library("alike", "DEF")
    for number in range(4):
        library.define(f"f{number}(Tensor x) -> Tensor")
        library.pointwise(f"f{number}", lambda x, number=number: x * float(number))

    def run():
        machine.start(cards=1, memory=1 << 28)
        x, found = rl.ones(3, device="cuda"), []
        for number in range(4):
            out = rl.empty(3, device="cuda")
            shifted(number)(x, out)
            found += getattr(rl.ops.alike, f"f{number}")(x)[0].item(), out[0].item()
        return found, machine.fake.modules

    found, count = run()
    assert found == [0, 1, 1, 2, 2, 3, 3, 4] and count > code_cache.SEPARATE
    contexts.join_modules()
    assert run() == (found, 1)


def test_no_more_bundles_are_kept_than_there_is_use_for(step, monkeypatch):
    monkeypatch.setattr(code_cache, "MOST_BUNDLES", 1)
    step()
    contexts.join_modules()
    rl.ones(3, device="cuda").exp()
    monkeypatch.setattr(code_cache, "SEPARATE", 0)
    contexts.join_modules()
    assert len(bundles()) == 1


@pytest.fixture
def packs(machine, tmp_path, monkeypatch):
    """The packs that come with a package, of two generations, with few kernels in them."""
    monkeypatch.setattr(warm, "EXERCISES", (lambda: rl.ones(3).exp().sum(),))
    monkeypatch.setattr(code_cache, "PACKS", str(tmp_path / "packs"))
    names = ["sm_75", "sm_90"]
    assert warm.ship(code_cache.PACKS, names) == 2
    return [code_cache.pack_path(name) for name in names]


def test_the_first_step_after_an_installation_loads_few_modules(step, packs):
    loss, count = step()
    assert count <= 5
    assert len(bundles()) == 1
    again, found = step()
    assert again == loss and found <= count
    os.unlink(packs[1])
    os.unlink(bundles()[0])
    assert step()[0] == loss  # kernels by themselves compute the same bits


@pytest.mark.imagined
def test_texts_that_came_with_the_package_are_not_made_again(
    packs, machine, monkeypatch
):
    made, plain = [], device.assemble
    monkeypatch.setattr(device, "assemble", lambda text: made.append(1) or plain(text))
    machine.start(cards=1)
    assert rl.zeros(3, device="cuda").exp().tolist() == [1.0, 1.0, 1.0]
    assert made == []
    rl.zeros(3, device="cuda").atan()
    assert made == [1]


def test_a_pack_for_another_generation_or_that_is_damaged_is_not_run(packs, machine):
    older, own = packs
    texts = Pack(older)
    assert set(texts.rows).isdisjoint(set(Pack(own).rows) - {code_cache.COMMON})
    text = zlib.decompress(texts.get(bytes(texts.get(code_cache.COMMON)[:16])))
    assert b".target sm_75" in text
    with open(own, "r+b") as file:
        file.seek(-4000, os.SEEK_END)
        file.write(bytes(2000))
    machine.start(cards=1)
    x = rl.zeros(3, device="cuda")
    assert (x.exp() + x.relu() - 1).tolist() == [0.0, 0.0, 0.0]
    assert code_cache.counts["refused"]


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
