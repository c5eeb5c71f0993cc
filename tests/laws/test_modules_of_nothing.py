"""Modules and losses of no examples, no channels and no elements do what PyTorch's do."""

import warnings

import pytest

import rushlight as rl

torch = pytest.importorskip("torch", reason="the oracle is not installed")

# Sizes, and the modules that are given them; the first number is that of examples.
MODULES = {
    (
        0,
        3,
    ): "Linear(3, 4); Identity(); BatchNorm1d(3); LayerNorm(3); RMSNorm(3); Dropout(); "
    "Softmax(0); Softmax(1); LogSoftmax(1); Softmin(1); PReLU(3); Unflatten(1, (3, 1)); "
    "RNNCell(3, 4); LSTMCell(3, 4); GRUCell(3, 4); AlphaDropout()",
    (2, 0): "Linear(0, 4); LayerNorm(0); RMSNorm(0); BatchNorm1d(0); Softmax(1); "
    "LogSoftmax(1); PReLU(); Softplus(); Flatten()",
    (2, 3): "Linear(3, 0)",
    (0, 4): "GLU(); RReLU(); Threshold(1, 2); Hardtanh(); ELU(); GELU(); LogSigmoid()",
    (0, 2, 5): "Conv1d(2, 3, 2); ConvTranspose1d(2, 3, 2); MaxPool1d(2); AvgPool1d(2); "
    "LPPool1d(2, 2); AdaptiveMaxPool1d(2); AdaptiveAvgPool1d(2); ReflectionPad1d(1); "
    "ReplicationPad1d(1); CircularPad1d(1); ConstantPad1d(1, 2.0); GroupNorm(1, 2); "
    "InstanceNorm1d(2, affine=True); LocalResponseNorm(2); Dropout1d(); "
    "Upsample(scale_factor=2)",
    (2, 0, 5): "InstanceNorm1d(0); GroupNorm(1, 0); ReflectionPad1d(1); "
    "Upsample(scale_factor=2)",
    (0, 2, 5, 5): "Conv2d(2, 3, 2); ConvTranspose2d(2, 3, 2); Unfold(2); MaxPool2d(2); "
    "MaxPool2d(2, return_indices=True); AvgPool2d(2); LPPool2d(2, 2); Softmax2d(); "
    "FractionalMaxPool2d(2, output_size=2); AdaptiveMaxPool2d(2); AdaptiveAvgPool2d(2); "
    "ReflectionPad2d(1); ReplicationPad2d(1); ZeroPad2d(1); BatchNorm2d(2); "
    "InstanceNorm2d(2); ChannelShuffle(2); Upsample(scale_factor=2, mode='bicubic')",
    (2, 0, 5, 5): "AvgPool2d(2); MaxPool2d(2)",
    (2, 2, 3, 3): "Conv2d(2, 0, 1); ZeroPad2d(-2)",
    (0, 2, 5, 5, 5): "Conv3d(2, 3, 2); ConvTranspose3d(2, 3, 2); MaxPool3d(2); "
    "AvgPool3d(2); AdaptiveMaxPool3d(2); AdaptiveAvgPool3d(2); ReflectionPad3d(1); "
    "ReplicationPad3d(1); BatchNorm3d(2)",
    (0, 8, 9): "Fold((4, 4), 2)",
    (5, 0, 3): "LSTM(3, 4); GRU(3, 4); LSTM(3, 4, bidirectional=True)",
    (0, 5, 3): "LSTM(3, 4); GRU(3, 4, batch_first=True)",
    (3, 0, 4): "TransformerEncoderLayer(4, 2, 8)",
    (0, 3, 4): "TransformerEncoderLayer(4, 2, 8, batch_first=True)",
}
# PyTorch's multi_margin and multilabel_margin of nothing read what nobody wrote.
LOSSES = {
    "L1Loss": "x, y", "MSELoss": "x, y", "CrossEntropyLoss": "x, y", "NLLLoss": "x, t",
    "PoissonNLLLoss": "x, y", "GaussianNLLLoss": "x, y, y + 1", "KLDivLoss": "x, y",
    "BCELoss": "x.sigmoid(), y", "BCEWithLogitsLoss": "x, y", "SoftMarginLoss": "x, y",
    "MarginRankingLoss": "x, y, y", "HingeEmbeddingLoss": "x, y", "HuberLoss": "x, y",
    "SmoothL1Loss": "x, y",
    "MultiLabelSoftMarginLoss": "x, y", "CosineEmbeddingLoss": "x, y, t.to(x.dtype)",
    "TripletMarginLoss": "x, y, y",
}  # fmt: skip


def described(values):
    """Sizes and numbers, also of what is nested."""
    if isinstance(values, (list, tuple)):
        return [described(value) for value in values]
    return None if values is None else (tuple(values.shape), repr(values.tolist()))


def outcome(module, function, *args):
    """What a function of the module gives, or the type of its error."""
    module.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return described(function(module, *args))
        except (RuntimeError, ValueError, IndexError, ZeroDivisionError) as error:
            return type(error).__name__


def called(module, text, sizes, training):
    """A module's result, and the gradients of its input and parameters."""
    layer = eval(f"nn.{text}", {"nn": module.nn}).train(training)
    x = module.ones(sizes, requires_grad=True)
    result = first = layer(x)
    while isinstance(first, tuple):
        first = first[0]
    first.sum().backward()
    return [result, x.grad, [p.grad for p in layer.parameters()], [*layer.buffers()]]


def inferred(module, text, sizes):
    """A module's result where nobody wants a gradient."""
    layer = eval(f"nn.{text}", {"nn": module.nn}).eval()
    with module.no_grad():
        return layer(module.ones(sizes))


def lost(module, name, sizes, reduction):
    """A loss, and its gradient."""
    x = module.ones(sizes, requires_grad=True)
    given = {"x": x, "y": module.full(sizes, 0.3)}
    given["t"] = module.zeros(sizes[:1] + sizes[2:], dtype=module.long)
    loss = getattr(module.nn, name)(reduction=reduction)
    result = loss(*eval(f"[{LOSSES[name]}]", given))
    result.sum().backward()
    return [result, x.grad]


@pytest.mark.parametrize("sizes", MODULES)
def test_modules_of_nothing_are_pytorchs(sizes):
    for text in MODULES[sizes].split("; "):
        for training in (True, False):
            case = text, sizes, training
            assert outcome(rl, called, *case) == outcome(torch, called, *case), case
        case = text, sizes
        assert outcome(rl, inferred, *case) == outcome(torch, inferred, *case), case


@pytest.mark.parametrize("name", LOSSES)
def test_losses_of_nothing_are_pytorchs(name):
    for sizes in ((0, 3), (2, 0), (0, 0), (0,), (0, 3, 2), (2, 3, 0)):
        for reduction in ("none", "mean", "sum"):
            case = name, sizes, reduction
            assert outcome(rl, lost, *case) == outcome(torch, lost, *case), case
