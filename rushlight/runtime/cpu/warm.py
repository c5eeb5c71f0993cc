"""Builds the kernels that most programs begin with, on all cores, and packs them.

``python -m rushlight.runtime.cpu.warm`` runs each exercise below in a process of its
own; what they compile ends up in the cache, and then in its pack.

With ``ship FOLDER`` the same kernels are compiled for levels of processors, into packs
that go with the package: who installs it waits for no compiler. Builds of wheels do so.
"""

import subprocess
import sys

from rushlight.core.progress import Progress
from rushlight.runtime.cpu import code_cache, pool


def pointwise():
    """Arithmetic, comparisons and activations over contiguous and broadcast floats."""
    import rushlight as rl
    import rushlight.nn.functional as F

    x = rl.rand(8, 16, requires_grad=True)
    y = rl.rand(8, 16, requires_grad=True)
    terms = [
        x + y, x - y, x * y, x / y, x * 2, x + 1, 1 - x, 1 / x, x**2, x**3, -x,
        x.exp(), x.log(), x.sqrt(), x.rsqrt(), x.abs(), x.clamp(0.1, 0.9), x.tanh(), x.sigmoid(),
        F.relu(x), F.gelu(x), F.silu(x), rl.where(x > y, x, y), rl.maximum(x, y),
        x.to(rl.float64).float(),
    ]  # fmt: skip
    sum(term.sum() for term in terms).backward()
    for compare in (x > y, x >= y, x < y, x <= y, x == y, x != y, x.isnan(), x.isinf()):
        compare.float().mean()
    with rl.no_grad():
        x.add_(y).mul_(2).zero_().fill_(1)


def reductions():
    """Sums, extremes, softmax and losses, forwards and backwards."""
    import rushlight as rl
    import rushlight.nn.functional as F

    x = rl.rand(8, 16, requires_grad=True)
    labels = rl.randint(0, 16, (8,))
    terms = [
        x.sum(), x.sum(0).sum(), x.sum(1).sum(), x.mean(), x.mean(1).sum(),
        x.var(1).sum(), x.std(), x.amax(1).sum(), x.max(), x.min(),
        x.max(1)[0].sum(), x.norm(),
        F.softmax(x, 1).sum(), F.log_softmax(x, 1).sum(), F.cross_entropy(x, labels),
        F.mse_loss(x, rl.rand(8, 16)), F.layer_norm(x, (16,)).sum(),
    ]  # fmt: skip
    sum(terms).backward()
    (x.argmax(1) == labels).sum().item()
    labels.sum(), labels.max(), x.cumsum(1), x.sort(1), x.topk(3, 1)


def products():
    """Matrix products of several shapes."""
    import rushlight as rl
    import rushlight.nn.functional as F

    x = rl.rand(8, 16, requires_grad=True)
    w = rl.rand(4, 16, requires_grad=True)
    b = rl.rand(4, requires_grad=True)
    batch = rl.rand(2, 8, 16, requires_grad=True)
    terms = [
        F.linear(x, w, b), x @ w.t(), batch @ w.t(), w @ x[0],
        rl.bmm(batch, batch.transpose(1, 2)), x[:1] @ rl.rand(16, 600),
    ]  # fmt: skip
    sum(term.sum() for term in terms).backward()
    x.to(rl.float64) @ w.t().to(rl.float64)


def indexing():
    """Rows of tables, parts of tensors and tensors of parts, and dropout."""
    import rushlight as rl
    import rushlight.nn.functional as F

    x = rl.rand(8, 16, requires_grad=True)
    table = rl.rand(10, 16, requires_grad=True)
    terms = [
        F.embedding(rl.arange(5), table), rl.cat([x, x]), rl.stack([x, x], 1),
        x[:, ::2], x[rl.arange(3)], x.t().contiguous(), F.dropout(x, 0.5),
    ]  # fmt: skip
    sum(term.sum() for term in terms).backward()


def windows():
    """Batch normalisation and pooling."""
    import rushlight as rl
    import rushlight.nn.functional as F

    x = rl.rand(2, 8, 12, 12, requires_grad=True)
    scale = rl.ones(8, requires_grad=True)
    y = F.batch_norm(x, rl.zeros(8), rl.ones(8), scale, scale, training=True)
    y = F.max_pool2d(F.relu(y), 2)
    (F.adaptive_avg_pool2d(y, 1).sum() + F.avg_pool2d(y, 2).sum()).backward()


def images():
    """Convolution, and pooling of what it gives."""
    import rushlight as rl
    import rushlight.nn.functional as F

    x = rl.rand(2, 3, 12, 12, requires_grad=True)
    w = rl.rand(8, 3, 3, 3, requires_grad=True)
    F.conv2d(x, w, rl.ones(8, requires_grad=True), padding=1).sum().backward()
    x, w = rl.randn(2, 24, 12, 12, requires_grad=True), rl.randn(40, 24, 3, 3)
    y = F.conv2d(x, w.requires_grad_(), padding=1)
    F.max_pool2d(y, 3, 2, 1).sum().backward()
    x, w = rl.rand(4, 1, 28, 28), rl.rand(6, 1, 5, 5, requires_grad=True)
    F.max_pool2d(F.conv2d(x, w, padding=2), 2).sum().backward()
    x, w = rl.rand(4, 6, 14, 14, requires_grad=True), rl.rand(16, 6, 5, 5)
    F.max_pool2d(F.conv2d(x, w.requires_grad_()), 2).sum().backward()
    rl.tensor(0).add_(1)  # how many batches were counted


def attention():
    """What transformers add: attention, normalisation with weights, tables."""
    import rushlight as rl
    import rushlight.nn.functional as F

    x = rl.randn(2, 8, 32, requires_grad=True)
    w, b = rl.ones(32, requires_grad=True), rl.zeros(32, requires_grad=True)
    q = F.layer_norm(x, (32,), w, b).view(2, 8, 4, 8).transpose(1, 2)
    for causal in (True, False):
        y = F.scaled_dot_product_attention(q, q, q, is_causal=causal)
        F.gelu(y.transpose(1, 2).reshape(2, 8, 32)).sum().backward(retain_graph=True)
    many = rl.randn(1, 1, 32, 8, requires_grad=True)
    F.scaled_dot_product_attention(many, many, many).sum().backward()
    mask = rl.ones(8, 8, dtype=rl.bool).tril()
    x.masked_fill(mask[0, 0], 0.0).softmax(-1).sum().backward()


def updates():
    """The optimizers' fused kernels."""
    import rushlight as rl
    from rushlight import optim

    for make in (optim.SGD, optim.Adam, optim.AdamW):
        x = rl.rand(8, requires_grad=True)
        options = {"momentum": 0.9} if make is optim.SGD else {}
        optimizer = make([x], lr=0.1, **options)
        x.sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def transforms():
    """Fourier transforms of lengths that are powers of two, and of others."""
    import rushlight as rl

    x = rl.rand(3, 24)
    for length in (16, 24):
        rl.fft.irfft(rl.fft.rfft(x, length), length)


EXERCISES = (
    images,
    windows,
    pointwise,
    reductions,
    products,
    indexing,
    attention,
    updates,
    transforms,
)


def kernels_of(exercises) -> dict:
    """The kernels that some functions ask for: name to digest and what lowers it."""
    found, usual = {}, code_cache.native

    def native(name, digest, lower):
        found.setdefault(name, (digest, lower))
        return usual(name, digest, lower)

    from rushlight.dispatch import row_variants

    code_cache.native = native
    row_variants.compile_every(True)
    try:
        for exercise in exercises:
            exercise()
    finally:
        code_cache.native = usual
        row_variants.compile_every(False)
    return found


def ship(folder: str) -> int:
    """Writes a pack for each level of this machine's kind of processor."""
    import os

    from rushlight.codegen.target import LEVELS, host, named

    kernels = kernels_of(EXERCISES)
    for level in map(named, LEVELS):
        if level.triple == host().triple:
            path = os.path.join(folder, f"{level.name}.pack")
            size = code_cache.ship(kernels, level, path)
            print(f"{len(kernels)} kernels for {level.name}: {size >> 10} KiB")
    return 0


def main(arguments: list) -> int:
    """Runs the exercises side by side; returns 1 if one of them failed."""
    if arguments[:1] == ["ship"] and len(arguments) == 2:
        return ship(arguments[1])
    if arguments:
        print("usage: python -m rushlight.runtime.cpu.warm [ship FOLDER]")
        return 2
    waiting = list(EXERCISES)
    running: list = []
    failed = False
    with Progress("exercises", len(waiting)) as line:
        while waiting or running:
            while waiting and len(running) < pool.get_num_threads():
                name = waiting.pop(0).__name__
                code = f"from rushlight.runtime.cpu import warm; warm.{name}()"
                running.append(subprocess.Popen([sys.executable, "-c", code]))
            failed |= running.pop(0).wait() != 0
            line.add()
    print(f"{code_cache.merge()} kernels ready in {code_cache.directory()}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
