"""A card that is not there: see `tests.cuda.driver`.

With RUSHLIGHT_REAL_CARD=1 the laws are asked of the machine's own cards, and those that look
behind the imagined driver are skipped.
"""

from __future__ import annotations

import contextlib
import gc
import os

import pytest

import rushlight as rl
from rushlight.codegen.emit import device
from rushlight.dispatch import launch_cache
from rushlight.operators.resampling import resampling
from rushlight.runtime.cuda import (
    allocator,
    code_cache,
    contexts,
    device_kernel,
    driver,
    libraries,
    pinned_memory,
)
from tests.cuda.blas import CublasLt
from tests.cuda.dnn import Cudnn
from tests.cuda.driver import CUfunction, FakeDriver
from tests.cuda.executor import Executor
from tests.cuda.libraries import Cublas, Cufft, Cusolver

ORPHANS: set = set()  # addresses of tensors that outlived their machines


def leave():
    """Lets go of a machine's cards, and notes what is still in use there."""
    for card in contexts.opened():
        ORPHANS.update(card.allocator.blocks)
    contexts.forget()
    launch_cache.forget()  # plans hold handles of the driver that goes
    pinned_memory.forget()
    resampling.forget_tables()


class Guarded(allocator.Allocator):
    """Takes nothing back that was another machine's."""

    def give_back(self, address):
        if address in ORPHANS:
            ORPHANS.discard(address)
        else:
            super().give_back(address)


class Machine:
    """An imagined driver in its place, and the cards behind it."""

    def __init__(self):
        self.fake = self.executor = None
        self.cusolver = self.cublas = self.cufft = self.cublas_lt = self.cudnn = None
        self.texts: dict = {}  # of entries: their machine code may be on disk already

    def start(self, **options):
        """Puts a driver in place."""
        leave()
        self.fake = FakeDriver(**options)
        self.fake.executors[None] = self.executor = Executor(
            self.fake.random, self.texts
        )
        door = driver.Driver(self.fake)
        door.start()
        driver.replace(door)
        self.cusolver, self.cublas = Cusolver(self.fake), Cublas(self.fake)
        self.cufft = Cufft(self.fake)
        for door in libraries.ALL:
            door.forget()
        libraries.CUSOLVER.found = self.cusolver
        libraries.CUBLAS.found = self.cublas
        libraries.CUFFT.found = self.cufft
        self.cublas_lt = libraries.CUBLAS_LT.found = CublasLt(self.fake)
        self.cudnn = libraries.CUDNN.found = Cudnn(self.fake)
        return self.fake

    def launched(self):
        """The names of the entries that were launched."""
        numbers = [
            args[0] for name, args in self.fake.calls if name == "cuLaunchKernel"
        ]
        return [self.fake.known(CUfunction, number).name for number in numbers]

    def card(self, index=0):
        """One of its cards."""
        return contexts.ctx(index)


class RealMachine:
    """The machine's own cards, behind whose driver nothing can be seen."""

    def start(self, cards=1, memory=1 << 26, architecture=None, **_options):
        """Leaves what is there, unless a test wants another."""
        if memory < 1 << 26 or architecture:
            pytest.skip("asks a small card, or one of a certain generation")

    def card(self, index=0):
        """One of its cards."""
        return contexts.ctx(index)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        pytest.skip(f"looks behind the imagined driver ({name})")

    def __setattr__(self, name, _value):
        getattr(self, name)


@contextlib.contextmanager
def real(monkeypatch):
    """The machine's cards; a test's kernels, which may be altered ones, are its own."""
    monkeypatch.setattr(code_cache, "folder", lambda: None)
    monkeypatch.setattr(device_kernel, "_kernels", {})
    launch_cache.forget()
    yield RealMachine()
    rl.cuda.synchronize()  # a fault is the test's that made it
    gc.collect()
    launch_cache.forget()
    resampling.forget_tables()


@pytest.fixture(autouse=True)
def _imagined_only(request):
    """Keeps from a real card what is of the imagined one: its size, its number, its faults."""
    if request.node.get_closest_marker("imagined") and (
        os.environ.get("RUSHLIGHT_REAL_CARD") == "1"
    ):
        pytest.skip("is of the imagined card")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    """Where there is one card, what asks for a second one is skipped."""
    outcome = yield
    found = outcome.excinfo and outcome.excinfo[1]
    if os.environ.get("RUSHLIGHT_REAL_CARD") == "1" and "invalid device" in str(found):
        outcome.force_exception(pytest.skip.Exception("asks for a second card"))


@contextlib.contextmanager
def imagined(made, folder=None):
    """Puts imagined cards in place of the machine's, and takes them away again.

    Args:
        made: the `Machine`.
        folder: where machine code is kept; nowhere by default.
    """
    assemble, place, known, named = (
        device.assemble,
        code_cache.folder,
        device_kernel._kernels,
        device_kernel._named,
    )
    packs, code_cache.PACKS = code_cache.PACKS, os.devnull  # texts nobody here read
    before, plain = driver.replace(None), contexts.Allocator
    contexts.Allocator = Guarded

    def remember(module):
        made.executor.remember(module.text())
        return assemble(module)

    device.assemble, device_kernel._kernels, device_kernel._named = remember, {}, {}
    code_cache.folder = lambda: folder and str(folder)
    try:
        made.start(cards=2)
        yield made
        gc.collect()
        if made.fake.sticky is None:
            made.fake.check()
    finally:
        for door in libraries.ALL:
            door.forget()
        leave()
        contexts.Allocator = plain
        driver.replace(before)
        device.assemble, code_cache.folder = assemble, place
        code_cache.PACKS = packs
        device_kernel._kernels, device_kernel._named = known, named


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine with two cards; `start` makes others."""
    if os.environ.get("RUSHLIGHT_REAL_CARD") == "1":
        with real(monkeypatch) as made:
            yield made
        return
    with imagined(Machine(), tmp_path) as made:
        yield made


@pytest.fixture
def compiling(machine, monkeypatch):
    """Two cards with room for programs, and none compiled before or kept after."""
    machine.start(cards=2, memory=1 << 28)
    monkeypatch.setenv("RUSHLIGHT_CUDA", "1")
    rl._dynamo.reset()
    yield machine
    rl._dynamo.reset()
