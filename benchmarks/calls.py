"""The cost of a call: a hundred and fifty operators on a few elements.

The forty of `benchmarks.overhead` and these: what programs call besides, with shapes so
small that only the way to the kernel counts.
"""

from types import SimpleNamespace

from benchmarks import overhead
from benchmarks.harness import Case, Group, tensors

# Name -> the call, with the library, its ``nn.functional`` and the operands.
CALLS = {
    "rsub": lambda lib, F, t: lambda: 1.0 - t.a,
    "reciprocal of a number's": lambda lib, F, t: lambda: 1.0 / t.a,
    "pow of a number": lambda lib, F, t: lambda: 2.0**t.a,
    "sub a scalar tensor": lambda lib, F, t: lambda: t.a - t.scalar,
    "mul by a row": lambda lib, F, t: lambda: t.a * t.v,
    "floor_divide": lambda lib, F, t: lambda: t.i // 2,
    "remainder": lambda lib, F, t: lambda: t.i % 2,
    "bitwise and": lambda lib, F, t: lambda: t.mask & t.mask,
    "logical_not": lambda lib, F, t: lambda: t.mask.logical_not(),
    "not": lambda lib, F, t: lambda: ~t.mask,
    "isnan": lambda lib, F, t: lambda: t.a.isnan(),
    "isfinite": lambda lib, F, t: lambda: t.a.isfinite(),
    "log": lambda lib, F, t: lambda: t.a.log(),
    "log1p": lambda lib, F, t: lambda: t.a.log1p(),
    "sin": lambda lib, F, t: lambda: t.a.sin(),
    "erf": lambda lib, F, t: lambda: t.a.erf(),
    "floor": lambda lib, F, t: lambda: t.a.floor(),
    "round": lambda lib, F, t: lambda: t.a.round(),
    "sign": lambda lib, F, t: lambda: t.a.sign(),
    "rsqrt": lambda lib, F, t: lambda: t.a.rsqrt(),
    "square": lambda lib, F, t: lambda: t.a.square(),
    "atan2": lambda lib, F, t: lambda: lib.atan2(t.a, t.b),
    "lerp": lambda lib, F, t: lambda: lib.lerp(t.a, t.b, 0.3),
    "addcmul": lambda lib, F, t: lambda: lib.addcmul(t.a, t.b, t.b),
    "clamp_min": lambda lib, F, t: lambda: t.a.clamp_min(0.5),
    "nan_to_num": lambda lib, F, t: lambda: t.a.nan_to_num(),
    "masked_fill": lambda lib, F, t: lambda: t.a.masked_fill(t.mask, 0.0),
    "zero_": lambda lib, F, t: lambda: t.out.zero_(),
    "fill_": lambda lib, F, t: lambda: t.out.fill_(1.0),
    "copy_": lambda lib, F, t: lambda: t.out.copy_(t.a),
    "clone": lambda lib, F, t: lambda: t.a.clone(),
    "contiguous of a transpose": lambda lib, F, t: lambda: t.a.t().contiguous(),
    "silu": lambda lib, F, t: lambda: F.silu(t.a),
    "leaky_relu": lambda lib, F, t: lambda: F.leaky_relu(t.a),
    "elu": lambda lib, F, t: lambda: F.elu(t.a),
    "softplus": lambda lib, F, t: lambda: F.softplus(t.a),
    "hardtanh": lambda lib, F, t: lambda: F.hardtanh(t.a),
    "log_softmax": lambda lib, F, t: lambda: F.log_softmax(t.a, 1),
    "dropout in evaluation": lambda lib, F, t: lambda: F.dropout(t.a, 0.5, False),
    "dropout": lambda lib, F, t: lambda: F.dropout(t.a, 0.5),
    "glu": lambda lib, F, t: lambda: F.glu(t.a),
    "var": lambda lib, F, t: lambda: t.a.var(),
    "std over a dimension": lambda lib, F, t: lambda: t.a.std(1),
    "min": lambda lib, F, t: lambda: t.a.min(),
    "max over a dimension": lambda lib, F, t: lambda: t.a.max(1),
    "amax": lambda lib, F, t: lambda: t.a.amax(1),
    "prod": lambda lib, F, t: lambda: t.a.prod(),
    "all": lambda lib, F, t: lambda: t.mask.all(),
    "any": lambda lib, F, t: lambda: t.mask.any(),
    "norm": lambda lib, F, t: lambda: t.a.norm(),
    "vector_norm": lambda lib, F, t: lambda: lib.linalg.vector_norm(t.a),
    "logsumexp": lambda lib, F, t: lambda: t.a.logsumexp(1),
    "cumsum": lambda lib, F, t: lambda: t.a.cumsum(1),
    "cumprod": lambda lib, F, t: lambda: t.a.cumprod(1),
    "sort": lambda lib, F, t: lambda: t.a.sort(),
    "argsort": lambda lib, F, t: lambda: t.a.argsort(),
    "topk": lambda lib, F, t: lambda: t.a.topk(1),
    "median": lambda lib, F, t: lambda: t.a.median(),
    "unique": lambda lib, F, t: lambda: t.a.unique(),
    "nonzero": lambda lib, F, t: lambda: t.a.nonzero(),
    "count_nonzero": lambda lib, F, t: lambda: t.a.count_nonzero(),
    "mm": lambda lib, F, t: lambda: lib.mm(t.a, t.b),
    "mv": lambda lib, F, t: lambda: lib.mv(t.a, t.v),
    "dot": lambda lib, F, t: lambda: lib.dot(t.v, t.v),
    "outer": lambda lib, F, t: lambda: lib.outer(t.v, t.v),
    "bmm": lambda lib, F, t: lambda: lib.bmm(t.batch, t.batch),
    "addmm": lambda lib, F, t: lambda: lib.addmm(t.a, t.a, t.b),
    "baddbmm": lambda lib, F, t: lambda: lib.baddbmm(t.batch, t.batch, t.batch),
    "linear": lambda lib, F, t: lambda: F.linear(t.a, t.b, t.v),
    "einsum": lambda lib, F, t: lambda: lib.einsum("ij,jk->ik", t.a, t.b),
    "tensordot": lambda lib, F, t: lambda: lib.tensordot(t.a, t.b, 1),
    "reshape": lambda lib, F, t: lambda: t.a.reshape(4),
    "flatten": lambda lib, F, t: lambda: t.a.flatten(),
    "permute": lambda lib, F, t: lambda: t.batch.permute(2, 0, 1),
    "expand": lambda lib, F, t: lambda: t.v.expand(3, 2),
    "squeeze": lambda lib, F, t: lambda: t.a.squeeze(0),
    "narrow": lambda lib, F, t: lambda: t.a.narrow(0, 0, 1),
    "unbind": lambda lib, F, t: lambda: t.a.unbind(0),
    "split": lambda lib, F, t: lambda: t.a.split(1),
    "chunk": lambda lib, F, t: lambda: t.a.chunk(2),
    "stack": lambda lib, F, t: lambda: lib.stack([t.a, t.b]),
    "repeat": lambda lib, F, t: lambda: t.a.repeat(2, 1),
    "roll": lambda lib, F, t: lambda: t.a.roll(1, 0),
    "flip": lambda lib, F, t: lambda: t.a.flip(0),
    "tril": lambda lib, F, t: lambda: t.a.tril(),
    "diag": lambda lib, F, t: lambda: t.a.diag(),
    "diagonal": lambda lib, F, t: lambda: t.a.diagonal(),
    "gather": lambda lib, F, t: lambda: t.a.gather(1, t.at),
    "scatter": lambda lib, F, t: lambda: t.a.scatter(1, t.at, t.b),
    "scatter_add": lambda lib, F, t: lambda: t.a.scatter_add(1, t.at, t.b),
    "index_add": lambda lib, F, t: lambda: t.a.index_add(0, t.rows, t.b),
    "index with a tensor": lambda lib, F, t: lambda: t.a[t.rows],
    "index with a mask": lambda lib, F, t: lambda: t.a[t.mask],
    "assign to a row": lambda lib, F, t: lambda: t.out.__setitem__(0, 1.0),
    "take_along_dim": lambda lib, F, t: lambda: t.a.take_along_dim(t.at, 1),
    "one_hot": lambda lib, F, t: lambda: F.one_hot(t.rows, 3),
    "embedding": lambda lib, F, t: lambda: F.embedding(t.rows, t.a),
    "searchsorted": lambda lib, F, t: lambda: lib.searchsorted(t.v, t.b),
    "bincount": lambda lib, F, t: lambda: lib.bincount(t.rows),
    "ones": lambda lib, F, t: lambda: lib.ones(2, 2),
    "full": lambda lib, F, t: lambda: lib.full((2, 2), 3.0),
    "arange": lambda lib, F, t: lambda: lib.arange(4),
    "linspace": lambda lib, F, t: lambda: lib.linspace(0, 1, 4),
    "eye": lambda lib, F, t: lambda: lib.eye(2),
    "tensor of a list": lambda lib, F, t: lambda: lib.tensor([1.0, 2.0]),
    "rand": lambda lib, F, t: lambda: lib.rand(2, 2),
    "randn": lambda lib, F, t: lambda: lib.randn(2, 2),
    "zeros_like": lambda lib, F, t: lambda: lib.zeros_like(t.a),
    "item": lambda lib, F, t: lambda: t.scalar.item(),
    "tolist": lambda lib, F, t: lambda: t.a.tolist(),
    "numpy": lambda lib, F, t: lambda: t.a.numpy(),
    "detach": lambda lib, F, t: lambda: t.a.detach(),
    "conv2d": lambda lib, F, t: lambda: F.conv2d(t.image, t.filters),
    "max_pool2d": lambda lib, F, t: lambda: F.max_pool2d(t.image, 2),
    "avg_pool2d": lambda lib, F, t: lambda: F.avg_pool2d(t.image, 2),
    "adaptive_avg_pool2d": lambda lib, F, t: lambda: F.adaptive_avg_pool2d(t.image, 1),
    "batch_norm": lambda lib, F, t: lambda: F.batch_norm(t.image, t.v, t.v),
    "layer_norm": lambda lib, F, t: lambda: F.layer_norm(t.a, (2,)),
    "group_norm": lambda lib, F, t: lambda: F.group_norm(t.image, 2),
    "rms_norm": lambda lib, F, t: lambda: F.rms_norm(t.a, (2,)),
    "pad": lambda lib, F, t: lambda: F.pad(t.a, (1, 1)),
    "interpolate": lambda lib, F, t: lambda: F.interpolate(t.image, scale_factor=2),
    "attention": lambda lib, F, t: (
        lambda: F.scaled_dot_product_attention(t.heads, t.heads, t.heads)
    ),
    "mse_loss": lambda lib, F, t: lambda: F.mse_loss(t.a, t.b),
    "l1_loss": lambda lib, F, t: lambda: F.l1_loss(t.a, t.b),
    "smooth_l1_loss": lambda lib, F, t: lambda: F.smooth_l1_loss(t.a, t.b),
    "cross_entropy": lambda lib, F, t: lambda: F.cross_entropy(t.a, t.rows),
    "nll_loss": lambda lib, F, t: lambda: F.nll_loss(t.a, t.rows),
    "binary_cross_entropy_with_logits": lambda lib, F, t: (
        lambda: F.binary_cross_entropy_with_logits(t.a, t.b)
    ),
    "kl_div": lambda lib, F, t: lambda: F.kl_div(t.a, t.b, reduction="batchmean"),
    "cosine_similarity": lambda lib, F, t: lambda: F.cosine_similarity(t.a, t.b),
    "normalize": lambda lib, F, t: lambda: F.normalize(t.a),
    "cdist": lambda lib, F, t: lambda: lib.cdist(t.a, t.b),
}


def operands(library):
    """Small tensors of the kinds that the calls take."""
    shapes = (2, 2), (2, 2), (2, 2), (2,), (2, 2, 2), (1, 2, 4, 4), (3, 2, 3, 3)
    a, b, out, v, batch, image, filters = tensors(library, *shapes)
    (heads,) = tensors(library, (1, 2, 4, 8))
    return SimpleNamespace(
        a=a, b=b, out=out, v=v, batch=batch, image=image, filters=filters, heads=heads,
        i=library.tensor([[5, 7], [2, 9]]), rows=library.tensor([1, 0]),
        at=library.tensor([[1, 0], [0, 1]]), mask=a > b, scalar=library.tensor(0.5),
    )  # fmt: skip


def make(name):
    def call(library):
        return CALLS[name](library, library.nn.functional, operands(library))

    return call


def groups(quick):
    """The table's row for calls of many kinds."""
    usual = [Case(name, overhead.make(name)) for name in overhead.CALLS]
    cases = [*usual, *(Case(name, make(name)) for name in CALLS)]
    return [Group(f"{len(cases)} calls on tiny tensors", 0.35, cases)]
