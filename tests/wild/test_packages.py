"""Models of well-known packages train as they do over PyTorch, step by step."""

import math

import pytest

# A few losses of each program over PyTorch 2.13, for the same seed.
PROGRAMS = {
    "torchvision": (
        "import torchvision\n"
        "model = torchvision.models.resnet18(num_classes=4)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)\n",
        IMAGES := (
            "torch.manual_seed(1)\n"
            "x, y = torch.randn(4, 3, 64, 64), torch.arange(4)\n"
            "def loss(): return torch.nn.functional.cross_entropy(model(x), y)\n"
        ),
    ),
    "timm-resnet10t": (
        "import timm\n"
        "model = timm.create_model('resnet10t', num_classes=4)\n"
        "optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)\n",
        IMAGES,
    ),
    "timm-vit": (
        "import timm\n"
        "model = timm.create_model('vit_tiny_patch16_224', num_classes=4, img_size=64)\n"
        "optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)\n",
        IMAGES,
    ),
    "transformers-bert": (
        "import transformers\n"
        "config = transformers.BertConfig(vocab_size=100, hidden_size=32,\n"
        "    num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,\n"
        "    max_position_embeddings=32, num_labels=2)\n"
        "model = transformers.BertForSequenceClassification(config)\n"
        "optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)\n",
        "torch.manual_seed(1)\n"
        "x, y = torch.randint(0, 100, (4, 12)), torch.tensor([0, 1, 0, 1])\n"
        "mask = torch.ones(4, 12, dtype=torch.long); mask[1, 8:] = 0\n"
        "def loss(): return model(input_ids=x, attention_mask=mask, labels=y).loss\n",
    ),
}
STEPS = """
for _ in range(4):
    optimizer.zero_grad()
    value = loss()
    value.backward()
    optimizer.step()
    print(value.item())
"""
TORCH = {
    "torchvision": [1.417645, 0.490191, 0.086499, 0.02971],
    "timm-resnet10t": [1.516471, 0.583028, 0.238028, 0.117489],
    "timm-vit": [1.509545, 0.674526, 0.488746, 0.456728],
    "transformers-bert": [0.69723, 0.692391, 0.683168, 0.680857],
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_losses_are_those_over_pytorch(wild, name):
    setup, data = PROGRAMS[name]
    text = f"import torch\ntorch.manual_seed(0)\n{setup}{data}{STEPS}"
    losses = [float(line) for line in wild(text)]
    assert all(map(math.isfinite, losses)) and losses[-1] < losses[0]
    # What a last bit of difference grows to in a few steps is not what this is about.
    assert losses == pytest.approx(TORCH[name], rel=2e-2)


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
