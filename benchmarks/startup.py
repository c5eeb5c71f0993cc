"""Fresh processes: import, the first training step, the memory that training takes."""

import math
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks import first_use

ROOT = Path(__file__).parents[1]

FIRST_STEP = """
import {library} as torch
from {library} import nn, optim
model = nn.Sequential(
    nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
    nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))
update = optim.Adam(model.parameters())
images, labels = torch.rand(64, 1, 28, 28), torch.randint(0, 10, (64,))

def step():
    update.zero_grad()
    loss = nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    update.step()
    return loss.item()

step()
"""
MEMORY = (
    """
def peak():
    # Not getrusage: its peak is the parent's, from before this program was loaded.
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
import {library}, {library}.nn, {library}.optim
before = peak()
"""
    + FIRST_STEP
    + """
for _ in range(20):
    step()
print(peak() - before)
"""
)


@dataclass(frozen=True)
class Measured:
    """A row that is a number of each library, with the bound it is held to."""

    title: str
    ours: float
    theirs: float
    unit: str
    bound: float
    absolute: bool = False  # the bound is on our number, not on the ratio
    fault: str = ""

    @property
    def value(self) -> float:
        return self.ours if self.absolute else self.ours / self.theirs

    @property
    def met(self) -> bool:
        return self.value <= self.bound


def run(program, cache):
    """A program in a fresh process: its output and the seconds it took."""
    import time

    environment = {**os.environ, "PYTHONPATH": str(ROOT), "RUSHLIGHT_CACHE": cache}
    # As Python is used: what it compiled of a source once, it keeps.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    start = time.perf_counter()
    result = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True
    )
    seconds = time.perf_counter() - start
    if result.returncode:
        raise RuntimeError(result.stderr.strip().splitlines()[-1])
    return result.stdout, seconds


def pair(program, rounds, cache, read=lambda output, seconds: seconds):
    """Medians of a program in both libraries, in turn; the first run is not kept."""
    samples = {"rushlight": [], "torch": []}
    for i in range(rounds + 1):
        for library in samples:
            measured = read(*run(program.format(library=library), cache))
            if i:
                samples[library].append(measured)
    return [statistics.median(column) for column in samples.values()]


def attempt(program, rounds, cache, **options):
    """Both libraries' numbers and no fault, or no numbers and the fault."""
    try:
        return *pair(program, rounds, cache, **options), ""
    except RuntimeError as error:
        return math.nan, math.nan, str(error)


def first_steps(rounds):
    """The worst model's seconds: empty cache, kernels kept, over PyTorch."""
    return (max(column) for column in zip(*first_use.measure(rounds).values()))


def measure(quick):
    """The table's rows for fresh processes."""
    rounds = 5 if quick else 11
    importing = "import {library}, {library}.nn, {library}.optim"
    with tempfile.TemporaryDirectory() as cache:
        bare = statistics.median(run("pass", cache)[1] for _ in range(rounds))
        ours, theirs, fault = attempt(importing, rounds, cache)
        imports = ours - bare, theirs - bare
        *alone, not_alone = attempt("import {library}", rounds, cache)
        *first, no_first = attempt(FIRST_STEP, rounds, cache)
        *memory, no_memory = attempt(
            MEMORY, 3, cache, read=lambda text, seconds: int(text) / 1024
        )
    empty, kept, without = first_steps(1 if quick else 3)
    step = "first step of LeNet from the start of Python, warm cache"
    more = "first step more than later ones, the worst of five models"
    peak = "memory that 20 steps of LeNet add at their peak"
    return [
        Measured("import, with nn and optim", *imports, "s", 0.15, fault=fault),
        Measured(
            "import alone, with Python's start", *alone, "s", 0.06, True, not_alone
        ),
        Measured(step, *first, "s", 0.5, True, no_first),
        Measured(peak, *memory, "MiB", 1.0, fault=no_memory),
        Measured(f"{more}, empty cache", empty, without, "s", 2.0, True),
        Measured(f"{more}, kernels kept", kept, without, "s", 0.1, True),
    ]
