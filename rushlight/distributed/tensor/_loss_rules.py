"""Losses of parts: rows that are weighed by all ranks', and classes that are cut."""

import math

import rushlight as rl
from rushlight.distributed import collective_functions as collectives
from rushlight.distributed.reductions import ReduceOp
from rushlight.distributed.tensor._op_call import Strategy
from rushlight.distributed.tensor._utils import compute_local_shape_and_global_offset
from rushlight.distributed.tensor.placement_types import Partial, Replicate, Shard

WHOLE = Replicate()
NONE, MEAN, SUM = range(3)


def _reduced(value, call, mesh_dims, op=ReduceOp.SUM):
    total = value.clone(memory_format=rl.contiguous_format)
    for mesh_dim in mesh_dims:
        collectives.all_reduce(total, op, call.mesh.get_group(mesh_dim))
    return total


def _number_of(call, name):
    return [each.name for each in call.inputs].index(name)


def _cut_along(chosen, dim):
    """The dimensions of the mesh that cut a tensor along one of its own."""
    return [number for number, each in enumerate(chosen) if each == Shard(dim)]


def _forward(call, chosen, parts):
    """The loss of this rank's rows and classes, divided by the weight of all rows."""
    values = dict(zip((each.name for each in call.inputs), parts))
    weight, reduction = values.get("weight"), call["reduction"]
    number = _number_of(call, "self")
    dim = 0 if len(call.shape(number)) < 2 else 1
    classes = _cut_along(chosen[number], dim)
    if classes:
        loss, total = _of_classes(call, classes, dim, chosen[number], values)
    else:
        kept = NONE if reduction == NONE else SUM
        found = values["self"], values["target"], weight, kept, call["ignore_index"]
        loss, total = call.func(*found)
    if reduction == MEAN:
        loss = loss / _reduced(
            total, call, _cut_along(chosen[number], 0) if dim else ()
        )
    return loss, total


def _placed(call, batch):
    """Inputs cut along the rows; weights and totals are whole."""
    inputs = []
    for each in call.inputs:
        cut = each.name in ("self", "target")
        cut = cut or (each.name == "grad_output" and call["reduction"] == NONE)
        inputs.append(batch if cut else WHOLE)
    return tuple(inputs)


def nll_loss(call):
    """Rows each for themselves; a mean is weighed by all ranks' rows."""
    found = [call.replicated()]
    if call.placement() != Shard(0) or len(call.shape()) < 2:
        return found
    placed, reduction = _placed(call, Shard(0)), call["reduction"]
    if reduction == NONE:
        found.append(Strategy((Shard(0), WHOLE), placed))
    else:
        found.append(Strategy((Partial(), Partial()), placed, _forward))
    return found


def nll_loss_backward(call):
    """Gradients of rows, each for themselves."""
    index = _number_of(call, "self")
    found = [call.replicated()]
    if call.placement(index) == Shard(0) and len(call.shape(index)) > 1:
        found.append(Strategy((Shard(0),), _placed(call, Shard(0))))
    return found


RULES = {
    "nll_loss_forward": nll_loss,
    "nll_loss2d_forward": nll_loss,
    "nll_loss_backward": nll_loss_backward,
    "nll_loss2d_backward": nll_loss_backward,
}


# -- classes that are cut: what ``loss_parallel`` turns on ----------------------------


def _log_softmax(call, chosen, parts):
    """Rows of which each rank has some classes: two reductions of a number a row."""
    (logits,), dim = parts, call["dim"] % len(call.shape())
    mesh_dims = _cut_along(chosen[0], dim)
    logits = logits.to(rl.float32) if call["half_to_float"] else logits
    if logits.shape[dim]:
        largest = logits.amax(dim, keepdim=True)
    else:
        sizes = list(logits.shape)
        sizes[dim] = 1
        largest = logits.new_full(sizes, -math.inf)
    shifted = logits - _reduced(largest, call, mesh_dims, ReduceOp.MAX)
    mass = _reduced(shifted.exp().sum(dim, keepdim=True), call, mesh_dims)
    return shifted - mass.log()


def log_softmax(call):
    """Also cut along the classes."""
    ndim = len(call.shape())
    return _with_classes(call, call["dim"] % ndim, 1, _log_softmax)


def _with_classes(call, dim, count, local):
    placement = call.placement()
    found = [call.replicated()]
    if isinstance(placement, Shard):
        local = local if placement.dim == dim else None
        found.append(Strategy((placement,), (placement,) * count, local))
    return found


def _log_softmax_backward(call, chosen, parts):
    """The gradient of the logits: its sum over all classes needs every rank."""
    (grad, output), dim = parts, call["dim"] % len(call.shape())
    own = grad.sum(dim, keepdim=True)
    return grad - output.exp() * _reduced(own, call, _cut_along(chosen[0], dim))


def log_softmax_backward(call):
    """Also cut along the classes."""
    dim = call["dim"] % len(call.shape())
    return _with_classes(call, dim, 2, _log_softmax_backward)


def _own_targets(call, placements, target, dim):
    """Targets as numbers of this rank's classes, and which are others' or ignored."""
    shape = call.shape(_number_of(call, "self"))
    sizes, offsets = compute_local_shape_and_global_offset(shape, call.mesh, placements)
    start, size = offsets[dim], sizes[dim]
    ignored = target == call["ignore_index"]
    outside = ignored | (target < start) | (target >= start + size)
    own = (target - start).masked_fill(outside, 0)
    return own.unsqueeze(dim), outside.unsqueeze(dim), ignored


def _weights(values, target, ignored):
    weight = values.get("weight")
    if weight is None:
        counted = values["self"].new_ones(target.shape)
    else:
        counted = weight[target.masked_fill(ignored, 0)]
    return counted.masked_fill(ignored, 0)


def _of_classes(call, mesh_dims, dim, placements, values):
    log, target = values["self"], values["target"]
    own, outside, ignored = _own_targets(call, placements, target, dim)
    if log.shape[dim]:
        picked = log.gather(dim, own).masked_fill(outside, 0).squeeze(dim)
    else:
        picked = log.new_zeros(target.shape)
    weights = _weights(values, target, ignored)
    loss = -_reduced(picked, call, mesh_dims) * weights
    if call["reduction"] == NONE:
        return loss, log.new_zeros(())
    return loss.sum(), weights.sum()


def nll_loss_of_classes(call):
    """Rows of which each rank has some classes, or each for themselves."""
    dim = 0 if len(call.shape()) < 2 else 1
    if call.placement() != Shard(dim):
        return nll_loss(call)
    inputs = tuple(Shard(dim) if each.name == "self" else WHOLE for each in call.inputs)
    return [call.replicated(), Strategy((WHOLE, WHOLE), inputs, _forward)]


def _backward(call, chosen, parts):
    """The gradient of this rank's rows and classes."""
    values = dict(zip((each.name for each in call.inputs), parts))
    log, target, grad = values["self"], values["target"], values["grad_output"]
    number = _number_of(call, "self")
    dim = 0 if log.dim() < 2 else 1
    own, outside, ignored = _own_targets(call, chosen[number], target, dim)
    weights = _weights(values, target, ignored)
    if call["reduction"] == MEAN:
        grad = grad / values["total_weight"]
    share = (-grad * weights).unsqueeze(dim).masked_fill(outside, 0)
    result = rl.zeros_like(log)
    return result.scatter_(dim, own, share) if log.shape[dim] else result


def nll_loss_backward_of_classes(call):
    """The same of the gradient."""
    index = _number_of(call, "self")
    dim = 0 if len(call.shape(index)) < 2 else 1
    if call.placement(index) != Shard(dim):
        return nll_loss_backward(call)
    inputs = tuple(Shard(dim) if each.name == "self" else WHOLE for each in call.inputs)
    return [call.replicated(), Strategy((Shard(dim),), inputs, _backward)]


PARALLEL = {
    "_log_softmax": log_softmax,
    "_log_softmax_backward_data": log_softmax_backward,
    "nll_loss_forward": nll_loss_of_classes,
    "nll_loss2d_forward": nll_loss_of_classes,
    "nll_loss_backward": nll_loss_backward_of_classes,
    "nll_loss2d_backward": nll_loss_backward_of_classes,
}
