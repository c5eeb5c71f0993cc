"""Models that are timed, in words that both libraries have: nothing here imports either."""

from functools import cache


def lenet(library):
    nn = library.nn
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(400, 120),
        nn.ReLU(),
        nn.Linear(120, 84),
        nn.ReLU(),
        nn.Linear(84, 10),
    )


def perceptron(library):
    nn = library.nn
    return nn.Sequential(
        nn.Linear(784, 256),
        nn.ReLU(),
        nn.Linear(256, 256),
        nn.ReLU(),
        nn.Linear(256, 10),
    )


@cache
def layers(library):
    """Modules that both libraries have in the same words."""
    nn = library.nn
    F = nn.functional

    class GatedLayer(nn.Module):
        """Root mean square norm and a gated pair of products, as in today's transformers."""

        def __init__(self, width):
            super().__init__()
            self.gate = nn.Linear(width, 2 * width)
            self.up = nn.Linear(width, 2 * width)
            self.down = nn.Linear(2 * width, width)

        def forward(self, x):
            scale = library.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
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

    class First(nn.Module):
        """The first of what a module gives."""

        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return self.inner(x)[0]

    return GatedLayer, Residual, First


def residual_net(library):
    nn = library.nn
    _, residual, _ = layers(library)
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        residual(16),
        residual(16),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 10),
    )


def gated(library):
    layer = layers(library)[0]
    return library.nn.Sequential(layer(256), layer(256))


def encoder(library):
    return library.nn.TransformerEncoderLayer(128, 4, 256)


def recurrent(library):
    return layers(library)[2](library.nn.LSTM(64, 64, batch_first=True))


def separable_net(library):
    """Depthwise convolutions between those of one pixel."""
    nn = library.nn

    def block(channels):
        return [
            nn.Conv2d(channels, channels, 3, padding=1, groups=channels, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
        ]

    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1),
        *block(32),
        *block(32),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(32, 10),
    )


def generator(library):
    """Two layers of a GPT: attention that looks back, and a gate of its own."""
    nn = library.nn
    F = nn.functional

    class Layer(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.heads = heads
            self.before = nn.LayerNorm(width)
            self.mixed = nn.Linear(width, 3 * width)
            self.out = nn.Linear(width, width)
            self.after = nn.LayerNorm(width)
            self.up = nn.Linear(width, 4 * width)
            self.down = nn.Linear(4 * width, width)

        def forward(self, x):
            batch, length, width = x.shape
            parts = self.mixed(self.before(x)).chunk(3, -1)
            q, k, v = (
                p.reshape(batch, length, self.heads, -1).transpose(1, 2) for p in parts
            )
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
            return x + self.down(F.gelu(self.up(self.after(x)), approximate="tanh"))

    return nn.Sequential(Layer(128, 4), Layer(128, 4), nn.Linear(128, 256))


MODELS = {
    "MLP": (perceptron, (784,)),
    "LeNet": (lenet, (1, 28, 28)),
    "residual net": (residual_net, (3, 32, 32)),
    "gated layers": (gated, (64, 256)),
    "encoder": (encoder, (32, 128)),
    "LSTM": (recurrent, (20, 64)),
    "separable net": (separable_net, (3, 32, 32)),
    "GPT": (generator, (32, 128)),
}


def prepared(library, name, batch):
    """A model and its input."""
    build, shape = MODELS[name]
    library.manual_seed(0)
    return build(library), library.randn(batch, *shape)


def step_of(library, name, batch):
    """A model's training step."""
    model, images = prepared(library, name, batch)
    update = library.optim.Adam(model.parameters(), lr=1e-4)

    def step():
        update.zero_grad()
        model(images).square().mean().backward()
        update.step()

    return step


def answer_of(library, name, batch):
    """A model's answer."""
    model, images = prepared(library, name, batch)
    model.eval()

    def answer():
        with library.no_grad():
            return model(images)

    return answer
