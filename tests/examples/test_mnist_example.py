"""The demo, on a data set small enough for a test, beside itself on PyTorch."""

import json
import os
import random
import struct
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Images of two bars whose places say which digit they are."""
    root = tmp_path_factory.mktemp("data")
    folder = root / "MNIST" / "raw"
    folder.mkdir(parents=True)
    chance = random.Random(0)
    for prefix, count in ("train", 6400), ("t10k", 500):
        labels = bytes(chance.randrange(10) for _ in range(count))
        images = b"".join(picture(label, chance) for label in labels)
        header = struct.pack(">HBB3I", 0, 8, 3, count, 28, 28)
        (folder / f"{prefix}-images-idx3-ubyte").write_bytes(header + images)
        header = struct.pack(">HBBI", 0, 8, 1, count)
        (folder / f"{prefix}-labels-idx1-ubyte").write_bytes(header + labels)
    return root


def picture(label, chance):
    noise = bytearray(
        chance.randbytes(28 * 28).translate(bytes(i // 4 for i in range(256)))
    )
    for i in range(28):
        noise[28 * (2 * label + 4) + i] = 255
        noise[28 * i + 24 - 2 * label] = 255
    return bytes(noise)


def run(data, out, *options):
    command = [
        sys.executable, ROOT / "examples" / "mnist.py", "--no-download", "--data", data,
        "--out", out, "--epochs", "1", *options,
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return json.loads((out / "history.json").read_text()), result.stdout


def test_the_demo_learns_and_leaves_checkpoint_and_picture(data, tmp_path):
    history, printed = run(data, tmp_path)
    assert len(history["losses"]) == 100
    assert history["accuracy"][0] > 95
    assert "test accuracy" in printed
    import rushlight as rl

    state = rl.load(tmp_path / "lenet.pt")
    assert state["epoch"] == 1
    assert state["model"]["conv1.weight"].shape == (6, 1, 5, 5)
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_the_first_hundred_losses_are_pytorchs(data, tmp_path):
    pytest.importorskip("torch", reason="the oracle is not installed")
    ours, _ = run(data, tmp_path / "ours")
    theirs, _ = run(data, tmp_path / "theirs", "--backend", "torch")
    assert len(ours["losses"]) == len(theirs["losses"]) == 100
    # The first step sees the same weights and images; rounding then grows step by step.
    assert ours["losses"][0] == pytest.approx(theirs["losses"][0], abs=1e-6)
    for step, (a, b) in enumerate(zip(ours["losses"], theirs["losses"])):
        assert a == pytest.approx(b, rel=2e-3, abs=1e-3), step
