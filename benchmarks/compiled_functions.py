"""Small compiled functions beside themselves uncompiled: none is to be slower.

What users put under ``compile`` by themselves: norms along either dimension, softmax and
losses, gates, rotary embeddings, residual norms, batch norms. Each at three sizes, once all
is built: forward, and forward and back.
"""

import rushlight as rl
from benchmarks.harness import Case, Group
from rushlight.nn import functional as F

SIZES = (64, 64), (256, 256), (512, 1024)
CALLS = 80  # before it is told, or timed, whether following a function pays

LIKE, UNIT, LABELS, MASK, HALF, ONES, ZEROS, MEAN, VAR = range(9)
MAKE = {
    LIKE: lambda rows, width: rl.randn(rows, width),
    UNIT: lambda rows, width: rl.rand(rows, width),
    LABELS: lambda rows, width: rl.randint(0, width, (rows,)),
    MASK: lambda rows, width: rl.rand(rows, width) > 0.8,
    HALF: lambda rows, width: rl.randn(rows, width // 2),
    ONES: lambda rows, width: rl.ones(width).requires_grad_(),
    ZEROS: lambda rows, width: rl.zeros(width).requires_grad_(),
    MEAN: lambda rows, width: rl.zeros(width),
    VAR: lambda rows, width: rl.ones(width),
}
STATISTICS = MEAN, VAR, ONES, ZEROS


def standard(x, dim):
    return (x - x.mean(dim, keepdim=True)) / x.std(dim, keepdim=True)


def between_extremes(x):
    low, high = x.amin(0), x.amax(0)
    return (x - low) / (high - low)


def rms_norm(x, weight):
    return x * rl.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight


def geglu(x):
    value, gate = x.chunk(2, -1)
    return value * F.gelu(gate)


def rope(x, cos, sin):
    a, b = x.chunk(2, -1)
    return rl.cat([a * cos - b * sin, b * cos + a * sin], -1)


def rotate_half(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + rl.cat([-b, a], -1) * sin


def focal(x, target):
    p = x.sigmoid()
    hit = p * target + (1 - p) * (1 - target)
    return (-((1 - hit) ** 2) * hit.clamp_min(1e-6).log()).mean()


def dice(x, target):
    p = x.sigmoid()
    return 1 - (2 * (p * target).sum() + 1) / (p.sum() + target.sum() + 1)


def entropy(x):
    found = F.log_softmax(x, -1)
    return -(found.exp() * found).sum(-1).mean()


def divergence(x, other):
    return F.kl_div(F.log_softmax(x, -1), F.softmax(other, -1), reduction="batchmean")


FUNCTIONS = {  # what is called -> the function, and its operands beside the first
    "difference from columns' means": (lambda x: x - x.mean(0), ()),
    "standard columns": (lambda x: standard(x, 0), ()),
    "difference from rows' means": (lambda x: x - x.mean(1, keepdim=True), ()),
    "standard rows": (lambda x: standard(x, 1), ()),
    "softmax of rows": (lambda x: F.softmax(x * 0.125, -1), ()),
    "softmax of columns": (lambda x: F.softmax(x * 0.125, 0), ()),
    "log softmax of columns": (lambda x: F.log_softmax(x + 1, 0), ()),
    "normal rows": (lambda x: F.normalize(x, dim=1), ()),
    "normal columns": (lambda x: F.normalize(x, dim=0), ()),
    "between columns' extremes": (between_extremes, ()),
    "variance of erf": (lambda x: x.erf().var(-1), ()),
    "variance of erf, columns": (lambda x: x.erf().var(0), ()),
    "logsumexp of columns": (lambda x: (x * 2).logsumexp(0), ()),
    "sum of tanh, columns": (lambda x: x.tanh().sum(0), ()),
    "root mean square of columns": (lambda x: x.pow(2).mean(0).sqrt(), ()),
    "RMS norm": (rms_norm, (ONES,)),
    "residual and layer norm": (
        lambda x, y, w, b: F.layer_norm(x + y, x.shape[-1:], w, b),
        (LIKE, ONES, ZEROS),
    ),
    "layer norm of GELU": (
        lambda x, w, b: F.layer_norm(F.gelu(x), x.shape[-1:], w, b),
        (ONES, ZEROS),
    ),
    "SwiGLU": (lambda x, gate: F.silu(x) * gate, (LIKE,)),
    "GEGLU": (geglu, ()),
    "two gates": (lambda x, y: x * y.sigmoid() + y * (1 - x.sigmoid()), (LIKE,)),
    "rotary embedding": (rope, (HALF, HALF)),
    "rotary embedding, halves turned": (rotate_half, (LIKE, LIKE)),
    "cross entropy": (F.cross_entropy, (LABELS,)),
    "cross entropy, smoothed": (
        lambda x, t: F.cross_entropy(x * 2, t, label_smoothing=0.1),
        (LABELS,),
    ),
    "mean squared error": (F.mse_loss, (LIKE,)),
    "smooth L1": (F.smooth_l1_loss, (LIKE,)),
    "binary cross entropy": (F.binary_cross_entropy_with_logits, (UNIT,)),
    "divergence": (divergence, (LIKE,)),
    "cosine loss": (lambda x, y: 1 - F.cosine_similarity(x, y, -1).mean(), (LIKE,)),
    "focal loss": (focal, (UNIT,)),
    "dice loss": (dice, (UNIT,)),
    "entropy": (entropy, ()),
    "batch norm, training": (
        lambda x, *rest: F.relu(F.batch_norm(x, *rest, training=True)),
        STATISTICS,
    ),
    "batch norm": (lambda x, *rest: F.relu(F.batch_norm(x, *rest)), STATISTICS),
    "batch norm of GELU, training": (
        lambda x, *rest: F.batch_norm(F.gelu(x), *rest, training=True),
        STATISTICS,
    ),
    "masked scores": (
        lambda x, m: F.softmax((x / 8).masked_fill(m, -1e9), -1),
        (MASK,),
    ),
}


def case(name, size, back):
    """A case: a function compiled, and the same uncompiled.

    Args:
        name: one of `FUNCTIONS`.
        size: rows, and their width.
        back: whether gradients are computed, too.
    """

    def call(library):
        function, kinds = FUNCTIONS[name]
        rl.manual_seed(0)
        x = rl.randn(size, requires_grad=back)
        given = [MAKE[kind](*size) for kind in kinds]
        if not back:
            given = [one.detach() for one in given]
        called = rl.compile(function) if library is rl else function
        slope = rl.randn(function(x, *given).shape)
        learning = [one for one in (x, *given) if one.requires_grad]

        def run():
            for one in learning:
                one.grad = None
            result = called(x, *given)
            if back:
                result.backward(slope)

        for _ in range(CALLS):
            run()
        while library is rl and called._runner.trial is not None:
            run()
        return run

    way = ", forward and back" if back else ""
    return Case(f"{name}, {size[0]} x {size[1]}{way}", call)


def groups(quick):
    """The table's rows for compiled functions.

    Args:
        quick: whether one size is enough.
    """
    sizes = SIZES[1:2] if quick else SIZES
    ways = ("forward", False), ("forward and back", True)
    title = "small functions compiled, against the same uncompiled"
    return [
        Group(
            f"{title}, {way}", 1.0,
            [case(name, size, back) for name in FUNCTIONS for size in sizes],
        )
        for way, back in ways
    ]  # fmt: skip
