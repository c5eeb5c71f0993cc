"""Batches of tensor expressions: what is computed for each of many examples at once.

y[i] = x[i] * w[i]   ->   y[b, i] = x[b, i] * w[i]     where only x has examples
"""

from rushlight.tensor_expressions.expressions import (
    Axis,
    Tensor,
    compute,
    reads,
    replace_reads,
)


def batched(output, given, count) -> Tensor:
    """A computation with a first dimension that counts examples.

    Args:
        output: what is computed for one example.
        given: pairs of a tensor and the one, of a dimension more, that has it for each.
        count: how many examples there are.
    """
    made = _batched(output, {id(one): many for one, many in given}, count)
    if made is not output:
        return made
    # it depends on none of those, and is the same for all examples
    shape = count, *output.shape
    return compute(shape, lambda example, *at: output[at], name=output.name)


def _batched(tensor, found, count):
    """A tensor for all examples; ``found`` has those that are known, and are made."""
    if id(tensor) in found or not tensor.is_computed:
        return found.get(id(tensor), tensor)
    if tensor.primary is not tensor:
        number = tensor.primary.results.index(tensor)
        return _batched(tensor.primary, found, count).results[number]
    axis, values = Axis("example", count), {}
    for read in reads(tensor.body):
        many = _batched(read.tensor, found, count)
        if many is not read.tensor:
            values[id(read.tensor)] = many
    made = tensor
    if values:
        body = _of_examples(tensor.body, values, axis)
        shape, axes = (count, *tensor.shape), (axis, *tensor.axis)
        made = Tensor(tensor.name, shape, tensor.type, axes, body)
    found[id(tensor)] = made
    return made


def batch_schedule(schedule, given, count):
    """Lets the loops of a schedule go over many examples, outermost.

    Args:
        schedule: of what is computed for one example.
        given: pairs of a tensor and the one, of a dimension more, that has it for each.
        count: how many examples there are.
    """
    found = {id(one): many for one, many in given}
    for stage in schedule.stages:
        one, axis = stage.tensor, Axis("example", count)
        body = _of_examples(stage.body, found, axis)
        if body is stage.body and all(one is not t.primary for t in schedule.outputs):
            continue
        shape, axes = (count, *one.shape), (axis, *stage.axis)
        many = Tensor(one.name, shape, one.type, axes, body)
        found |= zip(map(id, one.results), many.results)
        stage.body = body
        stage.batch(axis, many)
    schedule.outputs = [found[id(output)] for output in schedule.outputs]


def _of_examples(body, found, axis):
    """An expression whose reads of some tensors are those of an example."""

    def change(read):
        many = found.get(id(read.tensor))
        return read if many is None else many[(axis, *read.args)]

    return replace_reads(body, change)
