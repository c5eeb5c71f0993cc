"""``ops._c10d_functional`` and others: collectives as operators, which graphs name.

They are defined when the namespace is first asked for. What they give is there already,
and gradients go back through them as through the functions that they call.
"""

from rushlight.dispatch.library import Library
from rushlight.distributed import _functional_collectives as functions

_REDUCED = "str reduce_op, Any group_name"
_PARTS = "int group_size, Any group_name"
_SPLIT = "SymInt[] output_split_sizes, SymInt[] input_split_sizes, Any group_name"


def _reduce_scatter(input, reduce_op, group_size, group_name):
    return functions.reduce_scatter_tensor(input, reduce_op, 0, group_name)


def _gather(input, group_size, group_name):
    return functions.all_gather_tensor(input, 0, group_name)


_ALONE = [
    (f"all_gather_into_tensor(Tensor input, {_PARTS}) -> Tensor", _gather),
    (
        f"reduce_scatter_tensor(Tensor input, str reduce_op, {_PARTS}) -> Tensor",
        _reduce_scatter,
    ),
    (
        f"all_to_all_single(Tensor input, {_SPLIT}) -> Tensor",
        functions.all_to_all_single,
    ),
]
_OPERATORS = [
    *_ALONE,
    (f"all_reduce(Tensor input, {_REDUCED}) -> Tensor", functions.all_reduce),
    (
        f"all_reduce_(Tensor(a!) input, {_REDUCED}) -> Tensor(a!)",
        lambda input, *rest: input.copy_(functions.all_reduce(input, *rest)),
    ),
    (
        f"all_reduce_coalesced(Tensor[] inputs, {_REDUCED}) -> Tensor[]",
        functions.all_reduce_coalesced,
    ),
    ("broadcast(Tensor input, int src, Any group_name) -> Tensor", functions.broadcast),
    (
        "broadcast_(Tensor(a!) input, int src, Any group_name) -> Tensor(a!)",
        lambda input, *rest: input.copy_(functions.broadcast(input, *rest)),
    ),
    (
        f"all_gather_into_tensor_out(Tensor input, {_PARTS}, *, Tensor(a!) out) "
        "-> Tensor(a!)",
        lambda *rest, out: out.copy_(_gather(*rest)),
    ),
    (
        f"reduce_scatter_tensor_out(Tensor input, str reduce_op, {_PARTS}, *, "
        "Tensor(a!) out) -> Tensor(a!)",
        lambda *rest, out: out.copy_(_reduce_scatter(*rest)),
    ),
    (
        f"all_gather_into_tensor_coalesced(Tensor[] inputs, {_PARTS}) -> Tensor[]",
        lambda inputs, *rest: [_gather(each, *rest) for each in inputs],
    ),
    (
        "reduce_scatter_tensor_coalesced(Tensor[] inputs, str reduce_op, "
        f"{_PARTS}) -> Tensor[]",
        lambda inputs, *rest: [_reduce_scatter(each, *rest) for each in inputs],
    ),
    ("wait_tensor(Tensor tensor) -> Tensor", functions.wait_tensor),
    (
        "_wrap_tensor_autograd(Tensor input) -> Tensor",
        lambda input: input.view_as(input),
    ),
]
# Older forms, whose groups are lists of ranks.
_MEMBERS = "str tag, int[] ranks, int group_size"
_BY_RANKS = [
    (
        f"all_reduce(Tensor self, str reduceOp, {_MEMBERS}) -> Tensor",
        lambda input, op, tag, ranks, _: functions.all_reduce(input, op, ranks, tag),
    ),
    (
        f"all_gather_into_tensor(Tensor shard, {_MEMBERS}) -> Tensor",
        lambda shard, tag, ranks, _: functions.all_gather_tensor(shard, 0, ranks, tag),
    ),
    (
        f"reduce_scatter_tensor(Tensor input, str reduceOp, {_MEMBERS}) -> Tensor",
        lambda input, op, tag, ranks, _: functions.reduce_scatter_tensor(
            input, op, 0, ranks, tag
        ),
    ),
    (
        f"broadcast(Tensor self, int src, {_MEMBERS}) -> Tensor",
        lambda input, src, tag, ranks, _: functions.broadcast(input, src, ranks, tag),
    ),
    ("wait_tensor(Tensor self) -> Tensor", functions.wait_tensor),
]


def _scatter(outputs, inputs, group, root_rank, *rest):
    return outputs, group.scatter(outputs, inputs, root_rank)


_WITH_GROUPS = [
    (
        "scatter_(Tensor[] output_tensors, Any input_tensors, Any process_group, "
        "int root_rank, bool async_op=True, int timeout=-1) -> (Tensor[], Any)",
        _scatter,
    )
]


def _defined(namespace, operators):
    library = Library(namespace, "DEF")
    for schema, function in operators:
        library.define(schema)
        library.impl(schema.split("(")[0], function, "CompositeImplicitAutograd")
    return library


LIBRARIES = [
    _defined("_c10d_functional", _OPERATORS),
    _defined("_c10d_functional_autograd", _ALONE),
    _defined("c10d_functional", _BY_RANKS),
    _defined("c10d", _WITH_GROUPS),
]
