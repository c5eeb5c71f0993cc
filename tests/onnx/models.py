"""Networks that travel, in words that both libraries have: nothing here imports either."""

import math
from functools import cache


@cache
def layers(library):
    """Blocks of the networks below."""
    nn, F = library.nn, library.nn.functional

    class Residual(nn.Module):
        def __init__(self, inputs, outputs, stride=1):
            super().__init__()
            self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
            self.norm = nn.BatchNorm2d(outputs)
            self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
            self.again = nn.BatchNorm2d(outputs)
            self.short = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.relu = nn.ReLU(inplace=True)

        def forward(self, x):
            y = self.again(self.second(self.relu(self.norm(self.first(x)))))
            y += self.short(x)
            return self.relu(y)

    class Inverted(nn.Module):
        def __init__(self, inputs, outputs, stride, times):
            super().__init__()
            width = inputs * times
            self.conv = nn.Sequential(
                nn.Conv2d(inputs, width, 1, bias=False),
                nn.BatchNorm2d(width),
                nn.ReLU6(inplace=True),
                nn.Conv2d(width, width, 3, stride, 1, groups=width, bias=False),
                nn.BatchNorm2d(width),
                nn.Hardswish(inplace=True),
                nn.Conv2d(width, outputs, 1, bias=False),
                nn.BatchNorm2d(outputs),
            )
            self.gate = nn.Sequential(
                nn.AdaptiveAvgPool2d(1),
                nn.Conv2d(outputs, outputs, 1),
                nn.Hardsigmoid(),
            )
            self.adds = stride == 1 and inputs == outputs

        def forward(self, x):
            y = self.conv(x)
            y = y * self.gate(y)
            return x + y if self.adds else y

    def two(inputs, outputs):
        return nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, padding=1),
            nn.GroupNorm(2, outputs),
            nn.SiLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1),
            nn.InstanceNorm2d(outputs, affine=True),
            nn.LeakyReLU(0.1),
        )

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two, self.three = two(3, 8), two(8, 16), two(16, 16)
            self.up = nn.ConvTranspose2d(16, 16, 2, 2)
            self.mixed, self.last = two(32, 8), two(16, 8)
            self.out = nn.Conv2d(8, 2, 1)

        def forward(self, x):
            one = self.one(x)
            two = self.two(F.max_pool2d(one, 2))
            three = self.three(F.max_pool2d(two, 2))
            up = self.mixed(library.cat([self.up(three), two], 1))
            up = F.interpolate(up, size=one.shape[-2:], mode="bilinear")
            return self.out(self.last(library.cat([up, one], 1)))

    return Residual, Inverted, UNet


@cache
def transformers(library):
    """Models of sequences."""
    nn, F = library.nn, library.nn.functional

    class ViT(nn.Module):
        def __init__(self, width=32):
            super().__init__()
            self.patches = nn.Conv2d(3, width, 8, 8)
            self.token = nn.Parameter(library.zeros(1, 1, width))
            self.places = nn.Parameter(library.randn(1, 17, width) * 0.02)
            layer = nn.TransformerEncoderLayer(
                width,
                4,
                2 * width,
                activation="gelu",
                batch_first=True,
                norm_first=True,
            )
            self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.head = nn.Linear(width, 10)

        def forward(self, x):
            x = self.patches(x).flatten(2).transpose(1, 2)
            x = library.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
            return self.head(self.layers(x)[:, 0])

    class Bert(nn.Module):
        def __init__(self, width=32):
            super().__init__()
            self.words, self.places = nn.Embedding(100, width), nn.Embedding(64, width)
            self.norm = nn.LayerNorm(width)
            self.mixed, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = (
                nn.Linear(width, 4 * width),
                nn.Linear(4 * width, width),
            )
            self.drop = nn.Dropout(0.1)

        def forward(self, words, mask):
            batch, length = words.shape
            x = self.words(words) + self.places(library.arange(length))[None]
            x = self.drop(self.norm(x))
            bias = (1.0 - mask[:, None, None, :].to(x.dtype)) * -10000.0
            q, k, v = (
                part.view(batch, length, 4, -1).permute(0, 2, 1, 3)
                for part in self.mixed(x).split(x.shape[-1], -1)
            )
            scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + bias
            y = self.drop(F.softmax(scores, -1)) @ v
            y = y.permute(0, 2, 1, 3).contiguous().view(batch, length, -1)
            x = self.norm(x + self.out(y))
            x = x + self.down(F.gelu(self.up(x)))
            return x, library.tanh(x[:, 0])

    class Cached(nn.Module):
        """A GPT that is given the keys and values of what it has read."""

        def __init__(self, width=32):
            super().__init__()
            self.words, self.places = nn.Embedding(50, width), nn.Embedding(64, width)
            self.mixed, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

        def forward(self, words, past):
            batch, length = words.shape
            before = past[0].shape[2]
            x = self.words(words)
            x = x + self.places(library.arange(before, before + length))
            sees = library.arange(before + length)[None, :]
            sees = sees <= library.arange(length)[:, None] + before
            q, k, v = (
                part.view(batch, length, 4, -1).transpose(1, 2)
                for part in self.mixed(x).split(x.shape[-1], -1)
            )
            k, v = (library.cat(pair, 2) for pair in zip(past, (k, v)))
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=sees)
            x = x + self.out(y.transpose(1, 2).reshape(batch, length, -1))
            return F.linear(x, self.words.weight), (k, v)

    return ViT, Bert, Cached


def resnet(library):
    nn, residual = library.nn, layers(library)[0]
    return nn.Sequential(
        nn.Conv2d(3, 8, 7, 2, 3, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
        residual(8, 8),
        residual(8, 16, 2),
        nn.AdaptiveAvgPool2d((1, 1)),
        nn.Flatten(1),
        nn.Linear(16, 10),
    )


def mobilenet(library):
    nn, inverted = library.nn, layers(library)[1]
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1, bias=False),
        inverted(8, 8, 1, 2),
        inverted(8, 16, 2, 4),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(16, 10),
    )


def images(library, batch, size=32):
    return (library.randn(batch, 3, size, size),)


def words(library, batch, length):
    mask = library.ones(batch, length, dtype=library.int64)
    mask[0, -1] = 0
    return library.randint(0, 100, (batch, length)), mask


def rows(library, *sizes):
    return (library.randn(*sizes, 8),)


def read(library, batch, length, before):
    past = [library.randn(batch, 4, before, 8) for _ in range(2)]
    return library.randint(0, 50, (batch, length)), past


def recurrent(kind, **options):
    return lambda library: getattr(library.nn, kind)(8, 16, **options)


# Name -> what builds it, its arguments' sizes, other sizes, and the open ones' names.
MODELS = {
    "ResNet": (resnet, images, (2,), (3,), ({0: "batch"},)),
    "MobileNet": (mobilenet, images, (2,), (5,), ({0: "batch"},)),
    "UNet": (
        lambda library: layers(library)[2](), images, (2, 32), (1, 40),
        ({0: "batch", 2: "4*high", 3: "4*wide"},),
    ),
    "ViT": (lambda library: transformers(library)[0](), images, (2,), (1,),
            ({0: "batch"},)),
    "BERT": (lambda library: transformers(library)[1](), words, (2, 6), (3, 20),
             ({0: "batch", 1: "length"},) * 2),
    "GPT with a cache": (
        lambda library: transformers(library)[2](), read, (2, 3, 4), (3, 2, 7),
        ({0: "batch", 1: "length"}, [{0: "batch", 2: "before"}] * 2),
    ),
    "LSTM": (
        recurrent("LSTM", num_layers=2, bidirectional=True, batch_first=True), rows,
        (2, 5), (3, 7), ({0: "batch", 1: "length"},),
    ),
    "GRU": (recurrent("GRU", bidirectional=True), rows, (5, 2), (7, 3),
            ({0: "length", 1: "batch"},)),
    "RNN": (recurrent("RNN", nonlinearity="relu", bias=False), rows, (5, 2), (7, 3),
            ({0: "length", 1: "batch"},)),
}  # fmt: skip


def built(library, name):
    """A model in evaluation mode, and its arguments of two sizes."""
    build, inputs, sizes, others, _ = MODELS[name]
    library.manual_seed(0)
    model = build(library).eval()
    return model, inputs(library, *sizes), inputs(library, *others)


def shapes(library, name):
    """The dynamic shapes of a model's arguments."""
    dims: dict = {}

    def dim(text):
        times, _, word = text.rpartition("*")
        most = 60 if word in ("length", "before") else None
        found = dims.setdefault(word, library.export.Dim(word, max=most))
        return int(times) * found if times else found

    def of(value):
        if isinstance(value, dict):
            return {axis: dim(text) for axis, text in value.items()}
        return type(value)(of(one) for one in value)

    return of(MODELS[name][4])
