"""Counts of integers of each type, which stay as they are."""

import subprocess
import sys

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "int64"])
def test_integers_of_each_type_are_counted(dtype):
    rng = np.random.default_rng(0)
    for count in (0, 1, 5, 70_000):
        x = rng.integers(0, 100, count).astype(dtype)
        weights = rng.random(count)
        for least in (0, 7, 200):
            ours = rl.bincount(rl.tensor(x), minlength=least)
            theirs = torch.bincount(torch.tensor(x), minlength=least)
            assert ours.tolist() == theirs.tolist()
        ours = rl.bincount(rl.tensor(x), rl.tensor(weights))
        theirs = torch.bincount(torch.tensor(x), torch.tensor(weights))
        np.testing.assert_allclose(ours.numpy(), theirs.numpy())


def test_bytes_are_counted_without_a_wider_copy():
    program = (
        "import resource, rushlight as rl\n"
        "rl.bincount(rl.ones(1000, dtype=rl.uint8))\n"
        "x = rl.ones(100_000_000, dtype=rl.uint8)\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "assert rl.bincount(x).tolist() == [0, 100_000_000]\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True
    )
    assert int(done.stdout) < 50_000, done.stderr  # of 800,000 kilobytes
