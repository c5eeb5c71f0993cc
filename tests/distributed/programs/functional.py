"""Functional collectives over ways to say the group; prints results and gradients."""

import json
import sys
from importlib import import_module

name = sys.argv[1]
torch = import_module(name)
dist = import_module(name + ".distributed")
functional = import_module(name + ".distributed._functional_collectives")
mesh_of = import_module(name + ".distributed.device_mesh").init_device_mesh
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
mesh = mesh_of("cpu", (size,))
groups = {
    "group": dist.group.WORLD,
    "ranks": list(range(size)),
    "rows": [list(range(size))],
    "mesh": mesh,
    "dimension": (mesh, 0),
}
found = {}


def note(label, call):
    """The result of a call, and the gradient that goes back through it."""
    x = (torch.arange(24.0).reshape(4, 6) + 10 * rank).requires_grad_()
    try:
        result = functional.wait_tensor(call(x))
        found[label] = [list(result.shape), result.detach().flatten().tolist()]
        weights = torch.arange(float(result.numel())).reshape(result.shape) + rank
        (result * weights).sum().backward()
        found[label + ", gradient"] = x.grad.flatten().tolist()
    except Exception as error:
        found[label + ", error"] = type(error).__name__


for word, group in groups.items():
    note(f"sum, {word}", lambda x, g=group: functional.all_reduce(x, "sum", g))
    note(
        f"cut, {word}",
        lambda x, g=group: functional.reduce_scatter_tensor(x, "sum", 0, g),
    )
for op in ("MAX", "min", "product", "none"):
    note(op, lambda x, op=op: functional.all_reduce(x, op, mesh))
    note(
        f"cut by {op}",
        lambda x, op=op: functional.reduce_scatter_tensor(x, op, 0, mesh),
    )
for dim in (0, 1):
    note(f"gathered {dim}", lambda x, d=dim: functional.all_gather_tensor(x, d, mesh))
    note(
        f"cut {dim}",
        lambda x, d=dim: functional.reduce_scatter_tensor(x, "sum", d, mesh),
    )
note("odd", lambda x: functional.reduce_scatter_tensor(x[:3], "sum", 0, mesh))
note("equal", lambda x: functional.all_to_all_single(x, None, None, mesh))
taken, sent = ([1, 3], [1, 3]) if rank == 0 else ([3, 1], [3, 1])
if size == 2:
    note("uneven", lambda x: functional.all_to_all_single(x, taken, sent, mesh))
    for label, to in (("crossed", [1, 0]), ("kept", [0, 1])):
        note(label, lambda x, to=to: functional.permute_tensor(x.flatten(), to, mesh))
note("several", lambda x: sum(functional.all_reduce_coalesced([x, 2 * x], "sum", mesh)))
plain = functional.broadcast(torch.ones(2) * rank, size - 1, mesh)
found["broadcast"] = functional.wait_tensor(plain).tolist()
operators = torch.ops._c10d_functional
here = dist.distributed_c10d._get_default_group().group_name
rows = torch.arange(8.0).reshape(4, 2) + 10 * rank
for label, given in {
    "all_reduce": (rows, "max", here),
    "all_reduce_": (rows.clone(), "sum", here),
    "all_gather_into_tensor": (rows, size, here),
    "reduce_scatter_tensor": (rows, "sum", size, here),
    "all_to_all_single": (rows, [2] * size, [2] * size, here) if size == 2 else None,
    "broadcast": (rows, size - 1, here),
    "broadcast_": (rows.clone(), size - 1, here),
    "all_reduce_coalesced": ([rows, rows.clone()], "sum", here),
    "all_gather_into_tensor_coalesced": ([rows], size, here),
    "reduce_scatter_tensor_coalesced": ([rows], "sum", size, here),
}.items():
    if given is not None:
        result = getattr(operators, label)(*given)
        results = list(result) if isinstance(result, (list, tuple)) else [result]
        found["operator " + label] = [
            operators.wait_tensor(each).tolist() for each in results
        ]
out = torch.zeros(4 * size, 2)
operators.wait_tensor(operators.all_gather_into_tensor_out(rows, size, here, out=out))
found["operator out"] = out.tolist()
try:
    operators.all_reduce(rows, "sum", "nowhere")
except Exception as error:
    found["unknown group"] = [type(error).__name__, str(error)]
try:
    functional.all_reduce(torch.ones(1), "sum", 3)
except Exception as error:
    found["no group"] = type(error).__name__
print("FOUND " + json.dumps(found))
dist.destroy_process_group()
