"""Compiled programs beside the same ones as they are: training steps and inference.

The second of each pair is Rushlight without ``compile``, not PyTorch.
"""

import rushlight
from benchmarks.harness import Case, Group
from benchmarks.training import lenet, perceptron

nn = rushlight.nn
F = nn.functional


class GatedLayer(nn.Module):
    """Root mean square norm and a gated pair of products, as in today's transformers."""

    def __init__(self, width):
        super().__init__()
        self.gate = nn.Linear(width, 2 * width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        scale = rushlight.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        y = x * scale
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Residual(nn.Module):
    """Two convolutions, each with its normalisation, and what goes around them."""

    def __init__(self, channels):
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.again = nn.BatchNorm2d(channels)

    def forward(self, x):
        y = F.relu(self.norm(self.first(x)))
        return F.relu(self.again(self.second(y)) + x)


def residual_net():
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        Residual(16),
        Residual(16),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 10),
    )


class First(nn.Module):
    """The first of what a module gives."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x)[0]


MODELS = {
    "MLP": (lambda: perceptron(rushlight), (784,)),
    "LeNet": (lambda: lenet(rushlight), (1, 28, 28)),
    "residual net": (residual_net, (3, 32, 32)),
    "gated layers": (lambda: nn.Sequential(*map(GatedLayer, (256, 256))), (64, 256)),
    "encoder": (lambda: nn.TransformerEncoderLayer(128, 4, 256), (32, 128)),
    "LSTM": (lambda: First(nn.LSTM(64, 64, batch_first=True)), (20, 64)),
}


def training(name, batch):
    """A case: the training step of a model, compiled and not."""
    build, shape = MODELS[name]

    def make(library):
        rushlight.manual_seed(0)
        model = build()
        update = rushlight.optim.Adam(model.parameters(), lr=1e-4)
        images = rushlight.randn(batch, *shape)

        def step():
            update.zero_grad()
            model(images).square().mean().backward()
            update.step()

        return settled(step, library)

    return Case(f"{name}, batch {batch}", make)


def inference(name, batch):
    """A case: a model's answer, compiled and not."""
    build, shape = MODELS[name]

    def make(library):
        rushlight.manual_seed(0)
        model = build().eval()
        images = rushlight.randn(batch, *shape)

        def answer():
            with rushlight.no_grad():
                return model(images)

        return settled(answer, library)

    return Case(f"{name}, batch {batch}", make)


def settled(call, library):
    """The call, compiled where it is the first of the pair, once all is built."""
    if library is rushlight:
        call = rushlight.compile(call)
    for _ in range(3):
        call()
    return call


def groups(quick):
    """The table's rows for compiled programs."""
    names = list(MODELS)[: 3 if quick else None]
    return [
        Group(
            "compiled training step, against the same one uncompiled",
            0.85,
            [training(name, batch) for name in names for batch in (8, 64)],
        ),
        Group(
            "compiled inference, against the same one uncompiled",
            0.85,
            [inference(name, batch) for name in names for batch in (1, 8)],
        ),
    ]
