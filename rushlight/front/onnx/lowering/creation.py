"""Tensors from nothing: constants, ranges, random numbers."""

import rushlight as rl
from rushlight.onnx._graph import Value
from rushlight.onnx._registry import Unsupported, lowers
from rushlight.onnx._types import number_of
from rushlight.onnx.lowering.elementwise import all_same
from rushlight.operators import call

_MOST = 4096  # numbers of a range that is written down


def _filled(g, size, value):
    kind = g.kind
    value = value if isinstance(value, Value) else g.cast(value, kind)
    value = g.cast(value, kind)
    if not isinstance(size, Value) and not len(size):
        return value
    return g.op("Expand", value, g.sizes(size), dtype=kind)


@lowers(call.zeros, call.new_zeros, call.empty, call.new_empty)
def zeros(g, size, **_):
    """Zeros; what is undefined, too."""
    return _filled(g, size, 0)


@lowers(call.empty_strided, call.new_empty_strided)
def empty_strided(g, size, **_):
    """Zeros in the place of what is undefined."""
    return _filled(g, size, 0)


@lowers(call.ones, call.new_ones)
def ones(g, size, **_):
    """Ones."""
    return _filled(g, size, 1)


@lowers(call.full, call.new_full)
def full(g, size, fill_value, **_):
    """One number everywhere."""
    return _filled(g, size, fill_value)


@lowers(call.zeros_like, call.empty_like)
def zeros_like(g, self, **_):
    """Zeros in a tensor's sizes."""
    return all_same(g, self, 0, g.kind)


@lowers(call.ones_like)
def ones_like(g, self, **_):
    """Ones in a tensor's sizes."""
    return all_same(g, self, 1, g.kind)


@lowers(call.full_like)
def full_like(g, self, fill_value, **_):
    """One number in a tensor's sizes."""
    return g.op("Expand", g.cast(fill_value, g.kind), g.shape_of(self), dtype=g.kind)


@lowers(call.fill)
def fill(g, self, value):
    """One number in a tensor's sizes and type."""
    return g.op("Expand", g.cast(value, g.kind), g.shape_of(self), dtype=g.kind)


@lowers(call.scalar_tensor)
def scalar_tensor(g, s, **_):
    """A number."""
    return g.cast(s, g.kind)


@lowers(call.arange)
def arange(g, end, start=0, step=1, **_):
    """Numbers in equal steps."""
    kind = g.kind
    if not any(isinstance(one, Value) for one in (end, start, step)):
        made = rl.arange(start, end, step, dtype=kind)
        if made.numel() <= _MOST:
            return _written_down(g, made)
    inner = kind if kind in (rl.float32, rl.float64, rl.int32, rl.int64) else None
    inner = inner or (rl.float32 if kind.is_floating_point else rl.int64)
    parts = [g.cast(one, inner) for one in (start, end, step)]
    return g.cast(g.op("Range", *parts, dtype=inner), kind)


@lowers(call.linspace)
def linspace(g, start, end, steps, **_):
    """So many numbers from one to another, both included."""
    if isinstance(steps, Value):
        raise Unsupported("of a number of elements that is computed it has no form")
    if isinstance(start, Value) or isinstance(end, Value):
        return _between(g, start, end, steps, g.kind)
    return _written_down(g, rl.linspace(start, end, steps, dtype=g.kind))


def _between(g, start, end, steps, kind):
    """Numbers in equal steps from bounds that are computed: each counts from its side."""
    if not steps:
        return _written_down(g, rl.empty(0, dtype=kind))
    if not kind.is_floating_point:
        raise Unsupported("with bounds that are computed it has no form in ONNX")
    first, last = (
        g.reshape(
            g.cast(one, kind) if isinstance(one, Value) else g.const(one, kind), [1]
        )
        for one in (start, end)
    )
    if steps == 1:
        return first
    at = rl.arange(steps, dtype=rl.float64)
    near = at < steps / 2
    counted = rl.where(near, at, at - (steps - 1)).to(kind)
    step = g.div(g.sub(last, first), g.const(float(steps - 1), kind))
    base = g.where(g.const(near, rl.bool), first, last)
    return g.add(base, g.mul(step, g.const(counted, kind)))


@lowers(call.logspace)
def logspace(g, start, end, steps, base=10.0, **_):
    """Powers, their exponents in equal steps."""
    if isinstance(steps, Value):
        raise Unsupported("of a number of elements that is computed it has no form")
    if isinstance(start, Value) or isinstance(end, Value):
        exponents = _between(g, start, end, steps, g.kind)
        return g.op("Pow", g.const(float(base), g.kind), exponents, dtype=g.kind)
    return _written_down(g, rl.logspace(start, end, steps, base, dtype=g.kind))


def _written_down(g, tensor):
    return g.const(tensor, tensor.dtype)


@lowers(call.eye)
def eye(g, n, m=None, **_):
    """Ones on the diagonal."""
    m = n if m is None else m
    shape = g.op("Expand", g.const(0, g.kind), g.sizes([n, m]), dtype=g.kind)
    return g.op("EyeLike", shape, dtype=g.kind, k=0)


@lowers(call.tril_indices)
def tril_indices(g, row, col, offset=0, **_):
    """Where the lower triangle is."""
    return _written_down(g, rl.tril_indices(row, col, offset, dtype=g.kind))


@lowers(call.triu_indices)
def triu_indices(g, row, col, offset=0, **_):
    """Where the upper triangle is."""
    return _written_down(g, rl.triu_indices(row, col, offset, dtype=g.kind))


# -- random numbers: of the same laws, by the runtime's own generator --------------------


def _random(g, op_type, like, **attributes):
    kind = g.kind if g.kind in (rl.float32, rl.float64, rl.float16) else rl.float32
    made = g.op(
        f"{op_type}Like", like, dtype_=number_of(kind), dtype=kind, **attributes
    )
    return g.cast(made, g.kind)


def _like(g, size):
    kind = g.kind if g.kind.is_floating_point else rl.float32
    return g.op("Expand", g.const(0, kind), g.sizes(size), dtype=kind)


@lowers(call.rand)
def rand(g, size, **_):
    """Uniform numbers."""
    return _random(g, "RandomUniform", _like(g, size))


@lowers(call.randn)
def randn(g, size, **_):
    """Normal numbers."""
    return _random(g, "RandomNormal", _like(g, size))


@lowers(call.rand_like)
def rand_like(g, self, **_):
    """Uniform numbers in a tensor's sizes."""
    return _random(g, "RandomUniform", self)


@lowers(call.randn_like)
def randn_like(g, self, **_):
    """Normal numbers in a tensor's sizes."""
    return _random(g, "RandomNormal", self)


def _whole(g, low, high, like):
    """Whole numbers from a uniform law."""
    made = _random_float(g, like, low=float(low), high=float(high))
    return g.cast(g.op("Floor", made, dtype=rl.float32), g.kind)


def _random_float(g, like, **attributes):
    return g.op(
        "RandomUniformLike", like, dtype_=number_of(rl.float32), dtype=rl.float32,
        **attributes,
    )  # fmt: skip


@lowers(call.randint)
def randint(g, high, size, low=0, **_):
    """Whole numbers, each as likely."""
    return _whole(g, low, high, _like(g, size))


@lowers(call.randint_like)
def randint_like(g, self, high, low=0, **_):
    """Whole numbers in a tensor's sizes."""
    return _whole(g, low, high, self)


@lowers(call.normal)
def normal(g, mean=0.0, std=1.0, size=None, **_):
    """Normal numbers of a mean and a deviation."""
    if size is not None:
        like = _like(g, size)
    else:
        like = mean if isinstance(mean, Value) else std
        if isinstance(mean, Value) and isinstance(std, Value):
            like = g.add(mean, std)
    made = _random(g, "RandomNormal", like)
    return g.add(g.mul(made, g.cast(std, g.kind)), g.cast(mean, g.kind))


@lowers(call.bernoulli)
def bernoulli(g, self, p=None):
    """One or zero by chance."""
    if p is not None:
        self = all_same(g, self, p, self.dtype)
    return g.op("Bernoulli", self, dtype=self.dtype)


@lowers(call.multinomial)
def multinomial(g, self, num_samples, replacement=False):
    """Numbers of classes by their weights."""
    if not replacement and num_samples > 1:
        raise Unsupported("without replacement it has no form in ONNX")
    rows = self if self.rank == 2 else g.unsqueeze(self, [0])
    logarithms = g.op("Log", rows, dtype=self.dtype)
    made = g.op(
        "Multinomial", logarithms, sample_size=num_samples, dtype=rl.int64,
        dtype_=number_of(rl.int64),
    )  # fmt: skip
    return made if self.rank == 2 else g.squeeze(made, [0])
