"""Models of well-known packages train as they do over PyTorch, step by step.

``losses.json`` has what the programs print over PyTorch 2.13; a program runs there with
``python tests/wild/programs/train_NAME.py``.
"""

import json
import math
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"
TORCH = json.loads((Path(__file__).parent / "losses.json").read_text())


@pytest.mark.parametrize("name", TORCH)
def test_losses_are_those_over_pytorch(wild, name):
    numbers = [float(line) for line in wild(PROGRAMS / f"train_{name}.py") if line]
    assert all(map(math.isfinite, numbers))
    # What a last bit of difference grows to in a few steps is not what this is about.
    assert numbers[-8:] == pytest.approx(TORCH[name], rel=2e-2, abs=5e-3)


def test_images_are_transformed_and_sampled(wild):
    lines = wild(
        "import torch\n"
        "from torchvision import transforms as t\n"
        "from torchvision.transforms import functional as F\n"
        "torch.manual_seed(0)\n"
        "image = torch.rand(3, 16, 16)\n"
        "steps = t.Compose([t.RandomCrop(12), t.RandomHorizontalFlip(),\n"
        "    t.Normalize([0.5] * 3, [0.2] * 3), t.Resize(8, antialias=True)])\n"
        "print(tuple(steps(image).shape))\n"
        "turned = F.rotate(image, 90)\n"
        "print((turned - image.rot90(1, (1, 2))).abs().max().item() < 1e-4)\n"
        "print(F.to_pil_image(image).size)\n"
    )
    assert lines == ["(3, 8, 8)", "True", "(16, 16)"]


# The first numbers of the sentences' vectors by sentence-transformers over PyTorch.
VECTORS = [
    [0.0216640774, -0.0048641986, -0.0096491380, -0.0634012446],
    [0.0117541747, 0.0147148930, -0.0144885108, -0.0596491881],
    [0.0604549870, 0.0054452969, 0.0765657499, 0.0538294725],
    [0.0323589407, -0.0328059010, 0.0703518242, 0.0890481696],
    [0.0585075207, 0.0538762994, 0.0396733209, 0.0405959226],
]


def test_minilm_s_vectors_are_the_package_s(wild, tmp_path):
    script = Path(__file__).parents[2] / "examples" / "minilm.py"
    lines = wild(script, "--out", tmp_path, "--epochs", "1", launched=False)
    history = json.loads((tmp_path / "history.json").read_text())
    for found, wanted in zip(history["vectors"], VECTORS):
        assert found[:4] == pytest.approx(wanted, abs=1e-5)
    losses = history["losses"]
    assert sum(losses[-3:]) < 0.9 * sum(losses[:3])
    assert any("Share prices" in line and "stock market" in line for line in lines)
