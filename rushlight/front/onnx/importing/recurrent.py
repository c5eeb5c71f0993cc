"""Recurrent networks, random numbers, quantized values."""

import math

import rushlight as rl
from rushlight.onnx._types import dtype_of
from rushlight.onnx.errors import OnnxLoadError
from rushlight.onnx.importing._table import implements

_ACTIVATIONS = {
    "Relu": lambda x, a, b: rl.relu(x),
    "Tanh": lambda x, a, b: rl.tanh(x),
    "Sigmoid": lambda x, a, b: rl.sigmoid(x),
    "Affine": lambda x, a, b: a * x + b,
    "LeakyRelu": lambda x, a, b: rl.where(x >= 0, x, x * (0.01 if a is None else a)),
    "HardSigmoid": lambda x, a, b: (
        (0.2 if a is None else a) * x + (0.5 if b is None else b)
    ).clamp(0, 1),
    "Elu": lambda x, a, b: rl.where(x >= 0, x, (1 if a is None else a) * rl.expm1(x)),
    "Softsign": lambda x, a, b: x / (1 + x.abs()),
    "Softplus": lambda x, a, b: rl.log1p(rl.exp(x)),
    "ScaledTanh": lambda x, a, b: a * rl.tanh(b * x),
    "ThresholdedRelu": lambda x, a, b: rl.where(x > (1 if a is None else a), x, 0 * x),
}


def _functions(names, alphas, betas):
    """Activations with their numbers, which are listed for those that have some."""
    alphas, betas = list(alphas or []), list(betas or [])
    made = []
    for at, name in enumerate(names):
        if name not in _ACTIVATIONS:
            raise OnnxLoadError(f"the activation {name!r} is not known")
        a = alphas[at] if at < len(alphas) else None
        b = betas[at] if at < len(betas) else None
        made.append(lambda x, f=_ACTIVATIONS[name], a=a, b=b: f(x, a, b))
    return made


class Network:
    """One recurrent node: what its kinds share.

    Args:
        x: the sequence, time first.
        lengths: the length of each example's sequence, or None.
        step: ``step(input, states, weights, functions)`` gives the next states, of which
            the first is the output.
    """

    def __init__(self, x, lengths, step, options):
        self.x, self.lengths, self.step = x, lengths, step
        self.options = options

    def direction(self, weights, states, functions, backward):
        """The outputs of one direction, and its last states."""
        x, lengths = self.x, self.lengths
        outputs = []
        for at in range(x.shape[0]):
            time = at
            row = x[time]
            if backward:
                if lengths is None:
                    row = x[x.shape[0] - 1 - at]
                else:  # each example from its own end
                    indices = (lengths.long() - 1 - at).clamp(min=0)
                    row = x[indices, rl.arange(x.shape[1])]
            new = self.step(row, states, weights, functions, self.options)
            if lengths is not None:
                alive = (at < lengths).unsqueeze(-1)
                new = [rl.where(alive, one, old) for one, old in zip(new, states)]
                outputs.append(rl.where(alive, new[0], rl.zeros_like(new[0])))
            else:
                outputs.append(new[0])
            states = new
        made = rl.stack(outputs)
        if backward:
            made = self.transposed(made)
        return made, states

    def transposed(self, outputs):
        """Outputs of the backward direction in the order of time."""
        if self.lengths is None:
            return outputs.flip(0)
        made = rl.zeros_like(outputs)
        for at, length in enumerate(self.lengths.tolist()):
            made[:length, at] = outputs[:length, at].flip(0)
        return made


def _run(kind, x, w, r, b, lengths, starts, peephole, options, outputs):
    """A whole node: directions side by side."""
    layout, direction = options["layout"], options["direction"]
    if layout:
        x = x.transpose(0, 1)
        starts = [None if one is None else one.transpose(0, 1) for one in starts]
    hidden = r.shape[-1]
    directions = w.shape[0]
    names = options["activations"] or kind.activations * directions
    functions = _functions(
        names, options["activation_alpha"], options["activation_beta"]
    )
    each = len(kind.activations)
    network = Network(x, lengths, kind.step, options)
    made, last = [], []
    for at in range(directions):
        states = [
            x.new_zeros(x.shape[1], hidden) if one is None else one[at]
            for one in starts
        ]
        bias = x.new_zeros(2 * w.shape[1]) if b is None else b[at]
        weights = w[at], r[at], bias, None if peephole is None else peephole[at]
        backward = direction == "reverse" or at == 1
        own = functions[at * each : (at + 1) * each]
        output, ends = network.direction(weights, states, own, backward)
        made.append(output)
        last.append(ends)
    results = [rl.stack(made, 1), *(rl.stack(one) for one in zip(*last))]
    if layout:
        results[0] = results[0].permute(2, 0, 1, 3)
        results[1:] = [one.transpose(0, 1) for one in results[1:]]
    return tuple(results[:outputs]) if outputs > 1 else results[0]


def _clipped(x, options):
    clip = options["clip"]
    return x if not clip else x.clamp(-clip, clip)


class Lstm:
    """Gates in the order i o f c."""

    activations = ["Sigmoid", "Tanh", "Tanh"]

    @staticmethod
    def step(x, states, weights, functions, options):
        """The next hidden state, and the next cell."""
        h, c = states
        w, r, b, p = weights
        f, g, out = functions
        gates = x @ w.t() + h @ r.t() + b[: b.shape[0] // 2] + b[b.shape[0] // 2 :]
        i, o, forget, cell = gates.chunk(4, -1)
        if p is not None:
            p_i, p_o, p_f = p.chunk(3, -1)
            i, forget = i + p_i * c, forget + p_f * c
        i, forget = f(_clipped(i, options)), f(_clipped(forget, options))
        forget = 1 - i if options["input_forget"] else forget
        c = forget * c + i * g(_clipped(cell, options))
        o = o if p is None else o + p_o * c
        return [f(_clipped(o, options)) * out(c), c]


class Gru:
    """Gates in the order z r h."""

    activations = ["Sigmoid", "Tanh"]

    @staticmethod
    def step(x, states, weights, functions, options):
        """The next hidden state."""
        (h,) = states
        w, r, b, _ = weights
        f, g = functions
        half = b.shape[0] // 2
        xz, xr, xh = (x @ w.t() + b[:half]).chunk(3, -1)
        rz, rr, rh = r.chunk(3, 0)
        bz, br, bh = b[half:].chunk(3, -1)
        z = f(_clipped(xz + h @ rz.t() + bz, options))
        reset = f(_clipped(xr + h @ rr.t() + br, options))
        if options["linear_before_reset"]:
            new = xh + reset * (h @ rh.t() + bh)
        else:
            new = xh + (reset * h) @ rh.t() + bh
        new = g(_clipped(new, options))
        return [(1 - z) * new + z * h]


class Rnn:
    """One gate."""

    activations = ["Tanh"]

    @staticmethod
    def step(x, states, weights, functions, options):
        """The next hidden state."""
        (h,) = states
        w, r, b, _ = weights
        half = b.shape[0] // 2
        made = x @ w.t() + b[:half] + h @ r.t() + b[half:]
        return [functions[0](_clipped(made, options))]


_OPTIONS = {
    "activation_alpha": None, "activation_beta": None, "activations": None, "clip": None,
    "direction": "forward", "hidden_size": None, "input_forget": 0, "layout": 0,
    "linear_before_reset": 0, "output_sequence": 0,
}  # fmt: skip


@implements("LSTM", more=_OPTIONS)
def lstm(x, w, r, b=None, lengths=None, h=None, c=None, p=None, outputs=1, **options):
    """A long short-term memory."""
    options = {**_OPTIONS, **options}
    return _run(Lstm, x, w, r, b, lengths, [h, c], p, options, outputs)


@implements("GRU", more=_OPTIONS)
def gru(x, w, r, b=None, lengths=None, h=None, outputs=1, **options):
    """Gated recurrent units."""
    options = {**_OPTIONS, **options}
    return _run(Gru, x, w, r, b, lengths, [h], None, options, outputs)


@implements("RNN", more=_OPTIONS)
def rnn(x, w, r, b=None, lengths=None, h=None, outputs=1, **options):
    """A plain recurrent network."""
    options = {**_OPTIONS, **options}
    return _run(Rnn, x, w, r, b, lengths, [h], None, options, outputs)


# -- random numbers: from the default generator --------------------------------------------


def _random_type(dtype, like=None):
    return dtype_of(dtype) if dtype else (rl.float32 if like is None else like.dtype)


@implements("RandomNormal")
def random_normal(shape, dtype=1, mean=0.0, scale=1.0, seed=None):
    """Normal numbers."""
    return rl.randn(list(shape), dtype=_random_type(dtype)) * scale + mean


@implements("RandomUniform")
def random_uniform(shape, dtype=1, low=0.0, high=1.0, seed=None):
    """Uniform numbers."""
    return rl.rand(list(shape), dtype=_random_type(dtype)) * (high - low) + low


@implements("RandomNormalLike")
def random_normal_like(x, dtype=None, mean=0.0, scale=1.0, seed=None):
    """Normal numbers in a tensor's sizes."""
    return rl.randn(list(x.shape), dtype=_random_type(dtype, x)) * scale + mean


@implements("RandomUniformLike")
def random_uniform_like(x, dtype=None, low=0.0, high=1.0, seed=None):
    """Uniform numbers in a tensor's sizes."""
    return rl.rand(list(x.shape), dtype=_random_type(dtype, x)) * (high - low) + low


@implements("Bernoulli")
def bernoulli(x, dtype=None, seed=None):
    """One or zero by chance."""
    return rl.bernoulli(x).to(_random_type(dtype, x))


@implements("Multinomial")
def multinomial(x, dtype=6, sample_size=1, seed=None):
    """Numbers of classes by the logarithms of their weights."""
    return rl.multinomial(x.exp(), sample_size, replacement=True).to(dtype_of(dtype))


# -- windows of signals --------------------------------------------------------------------


def _register_window(name, function):
    @implements(name)
    def apply(size, output_datatype=1, periodic=1):
        count = int(size.item() if isinstance(size, rl.Tensor) else size)
        indices = rl.arange(count, dtype=rl.float64)
        period = count if periodic else max(count - 1, 1)
        return function(2 * math.pi * indices / period).to(dtype_of(output_datatype))


_register_window("HannWindow", lambda t: 0.5 - 0.5 * t.cos())
_register_window("HammingWindow", lambda t: 25 / 46 - 21 / 46 * t.cos())
_register_window(
    "BlackmanWindow", lambda t: 0.42 - 0.5 * t.cos() + 0.08 * (2 * t).cos()
)


# -- quantized values ----------------------------------------------------------------------


def _along(x, one, axis):
    """A scale or zero point for each place of an axis."""
    if one.dim() != 1 or one.numel() == 1 and x.dim() != 1:
        return one
    sizes = [1] * x.dim()
    sizes[axis] = -1
    return one.reshape(sizes)


def _blocks(x, one, axis, block_size):
    return (
        one.repeat_interleave(block_size, axis) if block_size else _along(x, one, axis)
    )


_SMALL = (rl.uint8, rl.int8, rl.uint16, rl.int16, rl.int32)


@implements("QuantizeLinear")
def quantize_linear(
    x,
    scale,
    zero_point=None,
    axis=1,
    block_size=0,
    output_dtype=0,
    saturate=1,
    precision=0,
):
    """Rounded multiples of a scale."""
    kind = rl.uint8 if zero_point is None else zero_point.dtype
    kind = dtype_of(output_dtype) if output_dtype else kind
    if kind not in _SMALL:
        raise OnnxLoadError(f"quantized values of type {kind} are not there")
    made = (x / _blocks(x, scale, axis, block_size)).round()
    if zero_point is not None:
        made = made + _blocks(x, zero_point, axis, block_size).to(x.dtype)
    info = rl.iinfo(kind)
    return made.clamp(info.min, info.max).to(kind)


@implements("DequantizeLinear")
def dequantize_linear(x, scale, zero_point=None, axis=1, block_size=0, output_dtype=0):
    """Multiples of a scale."""
    made = x.to(rl.float32)
    if zero_point is not None:
        made = made - _blocks(x, zero_point, axis, block_size).to(rl.float32)
    kind = dtype_of(output_dtype) if output_dtype else scale.dtype
    return (made * _blocks(x, scale, axis, block_size)).to(kind)


@implements("DynamicQuantizeLinear")
def dynamic_quantize_linear(x, outputs=3):
    """Quantized by the range that is there."""
    low, high = x.min().clamp(max=0), x.max().clamp(min=0)
    scale = (high - low) / 255
    zero = (-low / scale).round().clamp(0, 255)
    made = ((x / scale).round() + zero).clamp(0, 255).to(rl.uint8)
    return (made, scale, zero.to(rl.uint8))[:outputs]
