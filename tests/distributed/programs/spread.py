"""Operators on spread tensors give what they give on plain ones, however they are spread."""

import itertools

import rushlight as torch
import rushlight.distributed as dist
from rushlight.distributed.tensor import (
    DTensor,
    Partial,
    Replicate,
    Shard,
    distribute_tensor,
    rand,
)

F = torch.nn.functional
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
LINE = dist.init_device_mesh("cpu", (size,))
GRID = dist.init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("dp", "tp"))
torch.manual_seed(0)
x, y = torch.randn(4, 6, 8), torch.randn(4, 6, 8)
uneven, row = torch.randn(5, 7), torch.randn(8)
w, table = torch.randn(8, 8), torch.randn(10, 8)
index = torch.randint(0, 10, (4, 6))
classes = torch.randint(0, 8, (6,))
fewer = torch.randint(
    0, 6, (2, 3, 8)
)  # an index of fewer rows than what it chooses from
CASES = {
    "add": (lambda a, b: a + b, x, y),
    "broadcast": (lambda a, b: a * b + 1, x, row),
    "division": (lambda a, b: (a / (b.abs() + 1)).exp().sigmoid(), x, y),
    "where": (lambda a, b: torch.where(a > 0, a, b), x, y),
    "gelu": (lambda a: F.gelu(a), x),
    "sum": (lambda a: a.sum(), x),
    "sum of some": (lambda a: a.sum((0, 2)), x),
    "kept": (lambda a: a.sum(1, keepdim=True), x),
    "mean": (lambda a: a.mean(1), x),
    "uneven mean": (lambda a: a.mean(0), uneven),
    "largest": (lambda a: a.amax(1) + a.amin(1), x),
    "variance": (lambda a: a.var(1), x),
    "argmax": (lambda a: a.argmax(2).double(), x),
    "norm": (lambda a: torch.linalg.vector_norm(a), x),
    "other norm": (lambda a: torch.linalg.vector_norm(a, 3), uneven),
    "largest norm": (lambda a: torch.linalg.vector_norm(a, float("inf")), x),
    "softmax": (lambda a: a.softmax(1), x),
    "log softmax": (lambda a: a.log_softmax(-1), x),
    "product": (lambda a, b: a[0] @ b, x, w),
    "linear": (lambda a, b, c: F.linear(a, b, c), x, w, row),
    "batched": (lambda a, b: torch.bmm(a, b.transpose(1, 2)), x, y),
    "views": (lambda a: a.view(4, 6, 2, 4).transpose(1, 2).reshape(4, 2, 24), x),
    "flat": (lambda a: a.flatten(0, 1).t(), x),
    "uneven view": (lambda a: a.reshape(35), uneven),
    "permute": (lambda a: a.permute(2, 0, 1).unsqueeze(1).squeeze(1), x),
    "parts": (lambda a: a.chunk(2, 1)[1].sum(1) + a.select(1, 2), x),
    "slice": (lambda a: a[1:3, ::2], x),
    "unbind": (lambda a: a.unbind(1)[2], x),
    "expand": (lambda a: a.expand(3, 8) * 2, row),
    "cat": (lambda a, b: torch.cat([a, b], 1), x, y),
    "stack": (lambda a, b: torch.stack([a, b], 1), x, y),
    "layer norm": (lambda a, b, c: F.layer_norm(a, (8,), b, c), x, row, row),
    "rms norm": (lambda a, b: F.rms_norm(a, (8,), b), x, row),
    "cumsum": (lambda a: a.cumsum(1), x),
    "sort": (lambda a: a.sort(1)[0], x),
    "flip": (lambda a: a.flip(0), x),
    "gather": (lambda a: a.gather(1, spread_like(a, fewer)), x),
    "scatter": (lambda a, b: a.scatter_add(1, spread_like(a, fewer), b[:2, :3]), x, y),
    "attention": (
        lambda a, b: F.scaled_dot_product_attention(
            *(each.view(4, 6, 2, 4).transpose(1, 2) for each in (a, b, a))
        ),
        x,
        y,
    ),
    "loss": (lambda a: F.cross_entropy(a, spread_like(a, classes)), x[0]),
    "sum of losses": (
        lambda a: F.cross_entropy(
            a, spread_like(a, classes), reduction="sum", ignore_index=3
        ),
        x[0],
    ),
    "each loss": (
        lambda a: F.cross_entropy(a, spread_like(a, classes), reduction="none"),
        x[0],
    ),
    "squared": (lambda a, b: F.mse_loss(a, b), x, y),
    "no rule": (lambda a: torch.fft.rfft(a).abs(), x),
    "in place": (lambda a: (a * 1).mul_(2).add_(1), x),
}


def spread_like(value, plain):
    """A plain tensor, whole on all ranks of another's mesh."""
    mesh = getattr(value, "device_mesh", None)
    return plain if mesh is None else distribute_tensor(plain, mesh)


def placements_of(tensor, mesh):
    """Ways to place a tensor: a few of each kind."""
    single = [Replicate()] + [Shard(dim) for dim in range(tensor.dim())]
    ways = list(itertools.product(single, repeat=mesh.ndim))
    return ways[1:] if mesh.ndim == 1 else ways[1 :: max(1, len(ways) // 2)]


def check(name, function, tensors, mesh, placed):
    plain = [each.clone().requires_grad_() for each in tensors]
    spread = [
        distribute_tensor(each, mesh, way, src_data_rank=None).requires_grad_()
        for each, way in zip(tensors, placed)
    ]
    expected, found = function(*plain), function(*spread)
    where = name, mesh.ndim, placed, found.placements
    assert found.shape == expected.shape, where
    assert torch.allclose(found.full_tensor(), expected, atol=1e-5), where
    if not expected.requires_grad or name == "argmax":
        return
    weights = torch.arange(expected.numel(), dtype=expected.dtype).view(expected.shape)
    (expected * weights).sum().backward()
    (found * spread_like(found, weights)).sum().backward()
    for ours, theirs in zip(spread, plain):
        grad = ours.grad.full_tensor()
        assert torch.allclose(grad, theirs.grad, atol=1e-3, rtol=1e-4), where


for mesh in (LINE, GRID):
    for name, (function, *tensors) in CASES.items():
        ways = [placements_of(each, mesh) for each in tensors]
        for number in range(max(map(len, ways))):
            placed = [way[number % len(way)] for way in ways]
            check(name, function, tensors, mesh, placed)


def embeddings():
    for mesh in (LINE, GRID):
        for way in placements_of(table, mesh):
            spread = distribute_tensor(table, mesh, way).requires_grad_()
            plain = table.clone().requires_grad_()
            found = F.embedding(distribute_tensor(index, mesh), spread)
            expected = F.embedding(index, plain)
            assert torch.equal(found.full_tensor(), expected), way
            found.square().sum().backward()
            expected.square().sum().backward()
            assert torch.allclose(spread.grad.full_tensor(), plain.grad), way


def redistributions():
    """From every way to every other, of sizes that ranks cannot share alike."""
    for mesh in (LINE, GRID):
        ways = list(
            itertools.product([Replicate(), Shard(0), Shard(1)], repeat=mesh.ndim)
        )
        pairs = list(itertools.product(ways, repeat=2))
        for before, after in pairs[:: mesh.ndim]:
            spread = distribute_tensor(uneven, mesh, before, src_data_rank=None)
            moved = spread.redistribute(placements=after)
            expected = distribute_tensor(uneven, mesh, after, src_data_rank=None)
            assert torch.equal(moved.to_local(), expected.to_local()), (before, after)
            assert torch.equal(moved.full_tensor(), uneven), (before, after)
        shares = [Partial() if dim == 0 else Replicate() for dim in range(mesh.ndim)]
        count = mesh.size(0)
        made = type(spread).from_local(uneven.clone(), mesh, shares)
        for after in ways:
            moved = made.redistribute(placements=after)
            assert torch.allclose(moved.full_tensor(), uneven * count), after


def draws():
    """Random numbers of spread tensors are those that one process draws."""
    torch.manual_seed(3)
    whole, spread = torch.rand(6, 5), None
    torch.manual_seed(3)
    spread = rand(6, 5, device_mesh=LINE, placements=[Shard(0)])
    assert torch.equal(spread.full_tensor(), whole)
    torch.manual_seed(4)
    plain = F.dropout(uneven, 0.5)
    torch.manual_seed(4)
    cut = F.dropout(distribute_tensor(uneven, LINE, [Shard(0)]), 0.5)
    assert torch.equal(cut.full_tensor(), plain) and cut.placements == (Shard(0),)


def in_place():
    """What writes in place is computed of parts as the form is that does not."""
    for call in (
        lambda a: a.cumsum_(1),
        lambda a: a.addmm_(a.clone(), spread_like(a, torch.eye(7))),
    ):
        spread = distribute_tensor(uneven, LINE, [Shard(0)])
        assert call(spread).placements == (Shard(0),)
        assert torch.equal(spread.full_tensor(), call(uneven.clone()))


def refusals():
    spread = distribute_tensor(uneven, LINE, [Shard(0)])
    texts = []
    for call in (
        lambda: spread + uneven,
        lambda: spread.redistribute(placements=[Partial()]),
        lambda: spread.redistribute(),
        lambda: distribute_tensor(uneven, GRID, [Shard(0)]),
        lambda: distribute_tensor(uneven.requires_grad_() * 1, LINE, [Shard(0)]),
        lambda: spread.sum().exp_(),
        lambda: distribute_tensor(uneven, LINE, [Shard(5)]),
        lambda: spread.redistribute(placements=[Shard(-9)]),
        lambda: spread.redistribute(placements=[Shard(0), Shard(0)]),
        lambda: DTensor.from_local(uneven, LINE, [Shard(5)]),
        lambda: rand(2, device_mesh=LINE, placements=[Shard(0), Shard(0)]),
    ):
        try:
            call()
            texts.append("nothing")
        except (RuntimeError, ValueError, AssertionError) as error:
            texts.append(str(error))
    for text, words in zip(
        texts,
        (
            "got mixed torch.Tensor and DTensor",
            "redistributing to Partial is for internal use only",
            "placements is needed for redistribute",
            "must have the same length as `device_mesh.ndim`",
            "should be used to distribute leaf tensors",
            "in-place operations that require placement changes",
            "Sharding dim 5 greater than tensor ndim 2",
            "Sharding dim -9 greater than tensor ndim 2",
            "must have the same length as `device_mesh.ndim`",
            "Sharding dim 5 greater than tensor ndim 2 for placement number 0",
            "mesh dimension does not match the length of placements",
        ),
    ):
        assert words in text, (text, words)


embeddings()
redistributions()
draws()
in_place()
refusals()
print("RANK", rank, "DONE", flush=True)
dist.barrier()
dist.destroy_process_group()
