"""Small models, forward and backward, under a mode."""

from __future__ import annotations

import torch

import rushlight as rl
from tests.sequences.listen import under_mode, verdict_of


def layers(*build, sizes):
    """A chain of layers, with a batch of these sizes: ``(name, *arguments)`` each."""

    def make(lib):
        made = [getattr(lib.nn, name)(*args) for name, *args in build]
        return lib.nn.Sequential(*made), lib.ones(sizes) * 0.5

    return make


def plain(function, *sizes):
    """A function of parameters."""

    def make(lib):
        given = [lib.nn.Parameter(lib.ones(one) * 0.5) for one in sizes]
        return (lambda x: function(lib, *given)), None

    return make


def recurrent(name):
    """A recurrent layer."""

    def make(lib):
        layer = getattr(lib.nn, name)(3, 4)
        return (lambda x: layer(x)[0]), lib.ones(5, 2, 3)

    return make


def attention(lib):
    layer = lib.nn.MultiheadAttention(4, 2, batch_first=True)
    return (lambda x: layer(x, x, x)[0]), lib.ones(2, 3, 4)


def encoder(lib):
    return lib.nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True), lib.ones(
        2, 3, 4
    )


def embedding(lib):
    table = lib.nn.Embedding(5, 3)
    return table, lib.tensor([[0, 1], [2, 4]])


def classified(lib):
    net = lib.nn.Linear(4, 3)
    loss = lib.nn.CrossEntropyLoss()
    return (lambda x: loss(net(x), lib.tensor([0, 2]))), lib.ones(2, 4)


def stepped(name, **options):
    """A model, and one step of an optimizer."""

    def make(lib):
        net = lib.nn.Linear(4, 3)
        optimizer = getattr(lib.optim, name)(net.parameters(), **options)

        def run(x):
            net(x).sum().backward()
            optimizer.step()
            return net(x)

        return run, lib.ones(2, 4)

    return make


def residual(lib):
    first, second = lib.nn.Conv2d(3, 3, 3, padding=1), lib.nn.BatchNorm2d(3)
    return (lambda x: (x + second(first(x))).relu()), lib.ones(2, 3, 4, 4)


def _gate(lib, a, b):
    one, two = (a @ b).chunk(2, -1)
    return one * lib.nn.functional.silu(two)


MODELS = {
    "linear": layers(("Linear", 4, 3), sizes=(2, 4)),
    "linear without bias": layers(("Linear", 4, 3, False), sizes=(2, 4)),
    "linear of three": layers(("Linear", 4, 3), sizes=(2, 5, 4)),
    "bilinear": plain(
        lambda lib, a, b, w: lib.nn.functional.bilinear(a, b, w),
        (2, 3),
        (2, 4),
        (5, 3, 4),
    ),
    "perceptron": layers(("Linear", 4, 8), ("ReLU",), ("Linear", 8, 2), sizes=(3, 4)),
    "tanh": layers(("Linear", 4, 8), ("Tanh",), ("Linear", 8, 2), sizes=(3, 4)),
    "gelu": layers(("Linear", 4, 8), ("GELU",), ("Linear", 8, 2), sizes=(3, 4)),
    "sigmoid": layers(("Linear", 4, 8), ("Sigmoid",), sizes=(3, 4)),
    "softmax": layers(("Linear", 4, 8), ("Softmax", 1), sizes=(3, 4)),
    "log softmax": layers(("Linear", 4, 8), ("LogSoftmax", 1), sizes=(3, 4)),
    "dropout": layers(("Linear", 4, 8), ("Dropout", 0.5), sizes=(3, 4)),
    "layer norm": layers(("Linear", 4, 8), ("LayerNorm", 8), sizes=(3, 4)),
    "rms norm": layers(("Linear", 4, 8), ("RMSNorm", 8), sizes=(3, 4)),
    "batch norm": layers(("Linear", 4, 8), ("BatchNorm1d", 8), sizes=(3, 4)),
    "group norm": layers(("Conv2d", 3, 4, 3), ("GroupNorm", 2, 4), sizes=(2, 3, 5, 5)),
    "convolution": layers(
        ("Conv2d", 3, 4, 3),
        ("ReLU",),
        ("Flatten",),
        ("Linear", 36, 2),
        sizes=(2, 3, 5, 5),
    ),
    "pooled": layers(
        ("Conv2d", 1, 2, 3), ("MaxPool2d", 2), ("Flatten",), sizes=(2, 1, 6, 6)
    ),
    "averaged": layers(
        ("Conv2d", 1, 2, 3), ("AdaptiveAvgPool2d", 1), ("Flatten",), sizes=(2, 1, 6, 6)
    ),
    "signal": layers(("Conv1d", 3, 4, 3, 1, 1), ("SiLU",), sizes=(2, 3, 6)),
    "transposed": layers(
        ("ConvTranspose2d", 3, 2, 2), ("LeakyReLU",), sizes=(2, 3, 4, 4)
    ),
    "residual": residual,
    "lstm": recurrent("LSTM"),
    "gru": recurrent("GRU"),
    "rnn": recurrent("RNN"),
    "attention": attention,
    "encoder": encoder,
    "embedding": embedding,
    "classified": classified,
    "mean squares": plain(
        lambda lib, a, b: lib.nn.functional.mse_loss(a, b), (3, 4), (3, 4)
    ),
    "cosine": plain(
        lambda lib, a, b: lib.nn.functional.cosine_similarity(a, b), (3, 4), (3, 4)
    ),
    "gate": plain(_gate, (3, 4), (4, 6)),
    "products": plain(
        lambda lib, a, b: lib.einsum("bij,bkj->bik", a, b).softmax(-1),
        (2, 3, 4),
        (2, 5, 4),
    ),
    "sdpa": plain(
        lambda lib, a: lib.nn.functional.scaled_dot_product_attention(a, a, a),
        (1, 2, 3, 4),
    ),
    "sgd": stepped("SGD", lr=0.1, momentum=0.9),
    "adam": stepped("Adam", lr=0.1),
    "adamw": stepped("AdamW", lr=0.1, foreach=False),
}


def compare(name):
    """What becomes of a model: ``(verdict, detail)``."""
    runs = []
    for lib in (torch, rl):
        lib.manual_seed(3)
        model, x = MODELS[name](lib)

        def run(model=model, x=x):
            out = model(x)
            out.sum().backward()
            return out

        runs.append(under_mode(lib, run))
    return verdict_of(*runs)
