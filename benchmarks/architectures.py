"""Whole models as users write them, uncompiled: answers of one example and more, and steps.

Twelve architectures in words that both libraries have; sizes are those of tutorials, so that
a step takes milliseconds.
"""

from functools import cache

from benchmarks.harness import Case, Group
from benchmarks.models import layers


def conv(nn, inputs, outputs, size=3, step=1, groups=1, after=True):
    """A convolution, its normalization and what cuts it off."""
    parts = [
        nn.Conv2d(inputs, outputs, size, step, size // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    ]
    return nn.Sequential(*parts, nn.ReLU()) if after else nn.Sequential(*parts)


@cache
def basic(library):
    nn = library.nn
    F = nn.functional

    class Basic(nn.Module):
        """He et al., "Deep Residual Learning" (2015): two convolutions and a way around."""

        def __init__(self, inputs, outputs, step):
            super().__init__()
            self.first = conv(nn, inputs, outputs, 3, step)
            self.second = conv(nn, outputs, outputs, after=False)
            alike = inputs == outputs and step == 1
            around = conv(nn, inputs, outputs, 1, step, after=False)
            self.around = nn.Identity() if alike else around

        def forward(self, x):
            return F.relu(self.second(self.first(x)) + self.around(x))

    return Basic


@cache
def inverted(library):
    nn = library.nn

    class Inverted(nn.Module):
        """Sandler et al., "MobileNetV2" (2018): wide in the middle, depthwise there."""

        def __init__(self, inputs, outputs, step, wider):
            super().__init__()
            wide = wider * inputs
            self.inside = nn.Sequential(
                conv(nn, inputs, wide, 1),
                conv(nn, wide, wide, 3, step, wide),
                conv(nn, wide, outputs, 1, after=False),
            )
            self.around = step == 1 and inputs == outputs

        def forward(self, x):
            return x + self.inside(x) if self.around else self.inside(x)

    return Inverted


@cache
def patches(library):
    nn = library.nn

    class Patches(nn.Module):
        """Dosovitskiy et al., "An Image is Worth 16x16 Words" (2020)."""

        def __init__(self, width):
            super().__init__()
            self.cut = nn.Conv2d(3, width, 16, 16)
            layer = nn.TransformerEncoderLayer(
                width, 3, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True
            )
            self.inside = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
            self.head = nn.Linear(width, 10)

        def forward(self, x):
            return self.head(
                self.inside(self.cut(x).flatten(2).transpose(1, 2)).mean(1)
            )

    return Patches


@cache
def wide(library):
    nn = library.nn
    F = nn.functional

    class Wide(nn.Module):
        """Liu et al., "A ConvNet for the 2020s" (2022): 7 x 7 by channel, then pixels."""

        def __init__(self, width):
            super().__init__()
            self.across = nn.Conv2d(width, width, 7, padding=3, groups=width)
            self.norm = nn.LayerNorm(width)
            self.up = nn.Linear(width, 4 * width)
            self.down = nn.Linear(4 * width, width)

        def forward(self, x):
            y = self.norm(self.across(x).permute(0, 2, 3, 1))
            return x + self.down(F.gelu(self.up(y))).permute(0, 3, 1, 2)

    return Wide


@cache
def sides(library):
    nn = library.nn
    F = nn.functional

    class Sides(nn.Module):
        """Ronneberger et al., "U-Net" (2015), with the norms that diffusion models use."""

        def __init__(self, width):
            super().__init__()

            def pair(inputs, outputs):
                parts = []
                for size in (inputs, outputs):
                    parts.append(nn.Conv2d(size, outputs, 3, padding=1))
                    parts += [nn.GroupNorm(8, outputs), nn.SiLU()]
                return nn.Sequential(*parts)

            self.first, self.second = pair(3, width), pair(width, 2 * width)
            self.deepest = pair(2 * width, 4 * width)
            self.third = pair(6 * width, 2 * width)
            self.up = nn.ConvTranspose2d(2 * width, 2 * width, 2, 2)
            self.last = pair(3 * width, width)
            self.out = nn.Conv2d(width, 3, 1)

        def forward(self, x):
            a = self.first(x)
            b = self.second(F.max_pool2d(a, 2))
            c = F.interpolate(self.deepest(F.max_pool2d(b, 2)), scale_factor=2)
            d = self.up(self.third(library.cat([c, b], 1)))
            return self.out(self.last(library.cat([d, a], 1)))

    return Sides


@cache
def waves(library):
    nn = library.nn
    F = nn.functional

    class Waves(nn.Module):
        """Van den Oord et al., "WaveNet" (2016): dilated, gated convolutions of a line."""

        def __init__(self, width, depth):
            super().__init__()
            self.begin = nn.Conv1d(1, width, 1)
            self.gates = nn.ModuleList(
                nn.Conv1d(width, 2 * width, 2, dilation=2**k) for k in range(depth)
            )
            self.mixed = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in range(depth))

        def forward(self, x):
            x = self.begin(x)
            for k, (gate, mix) in enumerate(zip(self.gates, self.mixed)):
                a, b = gate(F.pad(x, (2**k, 0))).chunk(2, 1)
                x = x + mix(library.tanh(a) * library.sigmoid(b))
            return x

    return Waves


@cache
def words(library):
    nn = library.nn

    class Words(nn.Module):
        """Words to vectors, something between, and a number for each word."""

        def __init__(self, width, inside):
            super().__init__()
            self.words = nn.Embedding(1000, width)
            self.inside = inside

        def forward(self, x):
            return self.inside(self.words(x))

    return Words


def resnet(library):
    nn, block = library.nn, basic(library)
    sizes = (64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1)
    sizes += (128, 256, 2), (256, 256, 1), (256, 512, 2), (512, 512, 1)
    inside = [block(*each) for each in sizes]
    start = conv(nn, 3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)
    end = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10)
    return nn.Sequential(*start, *inside, *end)


def mobilenet(library):
    nn, block = library.nn, inverted(library)
    sizes = (
        (32, 16, 1, 1),
        (16, 24, 2, 6),
        (24, 24, 1, 6),
        (24, 32, 2, 6),
        (32, 32, 1, 6),
    )
    sizes += (32, 64, 2, 6), (64, 64, 1, 6), (64, 96, 1, 6), (96, 160, 2, 6)
    inside = [block(*each) for each in sizes]
    end = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(640, 10)
    return nn.Sequential(conv(nn, 3, 32, 3, 2), *inside, conv(nn, 160, 640, 1), *end)


def convnext(library):
    nn, block = library.nn, wide(library)
    inside = [block(64) for _ in range(3)]
    end = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)
    return nn.Sequential(nn.Conv2d(3, 64, 4, 4), *inside, *end)


def gpt(library):
    nn = library.nn
    layer = nn.TransformerEncoderLayer(
        256, 4, 1024, 0.0, "gelu", batch_first=True, norm_first=True
    )
    inside = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
    return words(library)(256, nn.Sequential(inside, nn.Linear(256, 1000)))


def language_model(library):
    nn = library.nn
    lstm = layers(library)[2](nn.LSTM(128, 256, 2, batch_first=True))
    return words(library)(128, nn.Sequential(lstm, nn.Linear(256, 1000)))


def generator(library):
    nn = library.nn
    parts = []
    for inputs, outputs, step, edge in (
        (64, 128, 1, 0),
        (128, 64, 2, 1),
        (64, 32, 2, 1),
    ):
        parts.append(nn.ConvTranspose2d(inputs, outputs, 4, step, edge, bias=False))
        parts += [nn.BatchNorm2d(outputs), nn.ReLU()]
    return nn.Sequential(*parts, nn.ConvTranspose2d(32, 3, 4, 2, 1), nn.Tanh())


def critic(library):
    nn = library.nn
    parts = [nn.Conv2d(3, 32, 4, 2, 1), nn.LeakyReLU(0.2)]
    for inputs, outputs in ((32, 64), (64, 128)):
        parts.append(nn.Conv2d(inputs, outputs, 4, 2, 1, bias=False))
        parts += [nn.BatchNorm2d(outputs), nn.LeakyReLU(0.2)]
    return nn.Sequential(*parts, nn.Conv2d(128, 1, 4))


def volumes(library):
    nn = library.nn
    parts = []
    for inputs, outputs in ((1, 16), (16, 32), (32, 64)):
        parts += [nn.Conv3d(inputs, outputs, 3, padding=1), nn.ReLU(), nn.MaxPool3d(2)]
    return nn.Sequential(
        *parts, nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(64, 4)
    )


def points(library):
    nn = library.nn
    parts = []
    for inputs, outputs in ((3, 64), (64, 128)):
        parts += [nn.Conv1d(inputs, outputs, 1), nn.BatchNorm1d(outputs), nn.ReLU()]
    end = nn.AdaptiveMaxPool1d(1), nn.Flatten(), nn.Linear(512, 10)
    return nn.Sequential(*parts, nn.Conv1d(128, 512, 1), *end)


# What builds each, the sizes of one example, and the examples of a batch.
ARCHITECTURES = {
    "ResNet-18": (resnet, (3, 112, 112), 2),
    "MobileNetV2": (mobilenet, (3, 112, 112), 2),
    "ConvNeXt": (convnext, (3, 96, 96), 2),
    "ViT": (lambda library: patches(library)(192), (3, 128, 128), 4),
    "GPT of words": (gpt, 128, 4),
    "LSTM of words": (language_model, 35, 8),
    "U-Net": (lambda library: sides(library)(32), (3, 64, 64), 2),
    "WaveNet": (lambda library: waves(library)(32, 8), (1, 1024), 4),
    "DCGAN's generator": (generator, (64, 1, 1), 8),
    "DCGAN's critic": (critic, (3, 32, 32), 8),
    "volumes": (volumes, (1, 16, 32, 32), 2),
    "PointNet": (points, (3, 512), 4),
}


def prepared(library, name, batch):
    """A model and its input."""
    build, shape, _ = ARCHITECTURES[name]
    library.manual_seed(0)
    model = build(library)
    if isinstance(shape, int):
        return model, library.randint(0, 1000, (batch, shape))
    return model, library.randn(batch, *shape)


def answer(name, batch):
    """A case's calls: a model's answer, without gradients."""

    def make(library):
        model, x = prepared(library, name, batch)
        model.eval()

        def call():
            with library.no_grad():
                return model(x)

        return call

    return make


def step(name, batch):
    """A case's calls: a training step by AdamW."""

    def make(library):
        model, x = prepared(library, name, batch)
        update = library.optim.AdamW(model.parameters(), lr=1e-4)

        def call():
            update.zero_grad()
            model(x).square().mean().backward()
            update.step()

        return call

    return make


def groups(quick):
    """The table's rows of whole models."""
    sizes = {name: batch for name, (_, _, batch) in ARCHITECTURES.items()}
    return [
        Group(title, 0.8, cases)
        for title, cases in (
            (
                "answers of twelve architectures, one example, uncompiled",
                [Case(name, answer(name, 1)) for name in sizes],
            ),
            (
                "answers of twelve architectures, a batch, uncompiled",
                [Case(f"{name}, {n}", answer(name, n)) for name, n in sizes.items()],
            ),
            (
                "training steps of twelve architectures, uncompiled",
                [Case(f"{name}, {n}", step(name, n)) for name, n in sizes.items()],
            ),
        )
    ]
