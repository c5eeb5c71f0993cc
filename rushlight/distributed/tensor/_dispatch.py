"""Calls of operators on spread tensors: choose a strategy, move parts, compute."""

import functools
import threading

import rushlight as rl
from rushlight._value_types import is_elementwise
from rushlight.core.state import AttributeScope
from rushlight.dispatch.declared import rule_of, says
from rushlight.distributed.tensor import _loss_rules, _sharding_rules
from rushlight.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta
from rushlight.distributed.tensor._op_call import OperatorCall, TensorArgument, is_small
from rushlight.distributed.tensor._redistribute import (
    chunks_of,
    redistribute,
    redistribution_cost,
)
from rushlight.distributed.tensor._sharding_rules import elementwise, follow, replicated
from rushlight.distributed.tensor._utils import (
    compute_local_shape_and_global_offset,
    contiguous_strides,
)
from rushlight.distributed.tensor.placement_types import Partial, Replicate, Shard
from rushlight.utils._pytree import tree_flatten, tree_map, tree_unflatten

__all__ = ["dispatch", "implicit_replication", "register_rule"]

MOST_PLANS = 4096
state = threading.local()
_plans: dict = {}
_own_rules: dict = {}  # operator -> a rule from outside


def register_rule(func, rule):
    """Compute an operator by a rule of a program's own.

    Args:
        func: the operator.
        rule: called with an ``OperatorCall``; lists ``Strategy``.
    """
    _own_rules[func] = rule
    _plans.clear()


def implicit_replication():
    """Take plain tensors as whole on every rank, for the length of a block."""
    return AttributeScope(state, implicit=True)


def _rule_of(func):
    own = _own_rules.get(func)
    if own is not None:
        return own
    if getattr(state, "loss_parallel", False) and func._opname in _loss_rules.PARALLEL:
        return _loss_rules.PARALLEL[func._opname]
    declared = rule_of(func.functional or func, "sharding", _sharding_rules)
    found = declared or _loss_rules.RULES.get(func._opname)
    if found is not None:
        return found
    if says(func, "like"):
        return follow
    return elementwise if is_elementwise(func) else replicated


# -- arguments -----------------------------------------------------------------------


def _bound(func, args, kwargs):
    """Arguments by name, in the order of the schema."""
    names = [each.name for each in func._schema.arguments]
    return {**dict(zip(names, args)), **kwargs}


def _spread_all(cls, func, leaves):
    """Leaves of which every tensor is spread: small plain ones are whole everywhere.

    Raises:
        RuntimeError: a plain tensor is among them, or they are of two meshes.
    """
    mesh = next(each for each in leaves if isinstance(each, cls)).device_mesh
    found = []
    for each in leaves:
        if isinstance(each, cls):
            if each.device_mesh != mesh:
                raise RuntimeError(
                    f"{func}: all tensors must be on one mesh, not on {mesh} and "
                    f"{each.device_mesh}"
                )
        elif isinstance(each, rl.Tensor):
            if not (is_small(each) or _takes_plain(func)):
                raise RuntimeError(
                    f"{func} got mixed torch.Tensor and DTensor, need to convert all "
                    "torch.Tensor to DTensor before calling distributed operators!"
                )
            each = cls(each, _spec_of(each, mesh, (Replicate(),) * mesh.ndim))
        found.append(each)
    return found, mesh


def _takes_plain(func):
    """Whether plain tensors count as whole on every rank."""
    if getattr(state, "loss_parallel", False) and func._opname in _loss_rules.PARALLEL:
        return True
    return getattr(state, "implicit", False)


def _spec_of(tensor, mesh, placements):
    meta = TensorMeta(tensor.shape, tuple(tensor.stride()), tensor.dtype)
    return DTensorSpec(mesh, tuple(placements), meta)


def _opened(args, kwargs):
    """Arguments as leaves and their structure; None for what has no containers."""
    if not kwargs and not any(isinstance(each, (list, tuple, dict)) for each in args):
        return list(args), None
    return tree_flatten((args, kwargs))


def _closed(leaves, structure):
    """The arguments of leaves, and those by name."""
    return (leaves, {}) if structure is None else tree_unflatten(leaves, structure)


def _key_of(func, leaves, structure, cls):
    """What a plan depends on; None where it cannot be looked up."""
    shape = None if structure is None else str(structure)
    parts = [func, shape, getattr(state, "loss_parallel", False)]
    for each in leaves:
        is_spread = isinstance(each, cls)
        parts += (each._spec, each.device) if is_spread else (type(each), each)
    key = tuple(parts)
    try:
        hash(key)
    except TypeError:
        return None
    return key


# -- plans ---------------------------------------------------------------------------


class _Plan:
    """How a call is computed: placements of inputs, results, and what differs."""

    __slots__ = (
        "call",
        "inputs",
        "outputs",
        "local",
        "structure",
        "written",
        "is_single",
    )

    def __init__(self, call, inputs, outputs, local, structure, written):
        self.call, self.inputs, self.outputs = call, inputs, outputs
        self.local, self.structure, self.written = local, structure, written
        self.is_single = structure.is_leaf()


def _on_meta(spec):
    meta = spec.tensor_meta
    return rl.empty_strided(meta.shape, meta.stride, dtype=meta.dtype, device="meta")


def _written_names(func):
    """The arguments that an operator writes into."""
    return {
        each.name
        for each in func._schema.arguments
        if each.alias_info is not None and each.alias_info.is_write
    }


def _whole_results(func, leaves, structure, cls):
    """The results of the whole, as tensors on ``meta``, flat, and their structure."""
    flat = [_on_meta(each._spec) if isinstance(each, cls) else each for each in leaves]
    flat = [rl.device("meta") if isinstance(each, rl.device) else each for each in flat]
    args, kwargs = _closed(flat, structure)
    return tree_flatten(func(*args, **kwargs))


def _make_plan(func, args, kwargs, leaves, structure, cls):
    results, out_structure = _whole_results(func, leaves, structure, cls)
    arguments, inputs = {}, []

    def noted(name, value):
        if not isinstance(value, cls):
            return value
        inputs.append(TensorArgument(name, value._spec))
        return inputs[-1]

    for name, value in _bound(func, args, kwargs).items():
        arguments[name] = tree_map(lambda each, name=name: noted(name, each), value)
    outputs = [each for each in results if isinstance(each, rl.Tensor)]
    call = OperatorCall(func, arguments, inputs, outputs)
    written = _written_names(func)
    chosen = [_choose(call, mesh_dim, written) for mesh_dim in range(call.mesh.ndim)]
    return _Plan(
        call,
        [tuple(each.inputs[i] for each in chosen) for i in range(len(inputs))],
        _output_specs(call, chosen, results),
        next((each.local for each in chosen if each.local), None),
        out_structure,
        written,
    )


def _output_specs(call, chosen, results):
    """A spec for each result that is a tensor; None for the others."""
    specs, number = [], 0
    for result in results:
        if not isinstance(result, rl.Tensor):
            specs.append(None)
            continue
        placements = tuple(each.outputs[number] for each in chosen)
        specs.append(_spec_of(result, call.mesh, placements))
        number += 1
    return specs


def _choose(call, mesh_dim, written):
    """The strategy that moves the fewest octets along one dimension of the mesh.

    Raises:
        RuntimeError: what is written into would have to be placed in another way.
    """
    call.mesh_dim = mesh_dim
    current = call.placements()
    fixed = [i for i, each in enumerate(call.inputs) if each.name in written]
    best, least = None, float("inf")
    for strategy in _rule_of(call.func)(call):
        if any(strategy.inputs[i] != current[i] for i in fixed):
            continue
        if fixed and any(strategy.outputs[i] != current[i] for i in _same(call, fixed)):
            continue
        cost = 0.0
        for placed, wanted, each in zip(current, strategy.inputs, call.inputs):
            octets = each.spec.shape.numel() * each.spec.tensor_meta.dtype.itemsize
            shared = isinstance(placed, Shard)
            octets = octets / call.size() if shared else octets
            cost += redistribution_cost(placed, wanted, octets, call.size())
        if best is None or cost < least:
            best, least = strategy, cost
    if best is None:
        raise RuntimeError(
            f"{call.func}: in-place operations that require placement changes are not "
            f"supported: the tensor is {current[fixed[0]]}\n  remedy: redistribute it "
            "first, or use the form that is not in place"
        )
    return best


def _same(call, fixed):
    """Results that are what was written into, by number."""
    return range(min(len(fixed), len(call.outputs)))


# -- running -------------------------------------------------------------------------


@functools.cache
def _takes_sizes(func):
    """Whether an argument has the sizes of the result: a rank gives its part's."""
    return any(
        each.name == "size" and "[" in each.type for each in func._schema.arguments
    )


def _local_arguments(plan, leaves, parts, structure, cls):
    """The arguments with parts in place of tensors, and sizes of parts."""
    parts = iter(parts)
    flat = [next(parts) if isinstance(each, cls) else each for each in leaves]
    args, kwargs = _closed(flat, structure)
    spec = plan.outputs[0] if plan.outputs else None
    if spec is None or not _takes_sizes(plan.call.func):
        return args, kwargs
    if not any(isinstance(each, Shard) for each in spec.placements):
        return args, kwargs
    sizes, _ = compute_local_shape_and_global_offset(
        spec.shape, spec.mesh, spec.placements
    )
    bound = {**_bound(plan.call.func, args, kwargs), "size": list(sizes)}
    if "stride" in bound:
        bound["stride"] = list(contiguous_strides(sizes))
    return (), bound


def _run(plan, func, leaves, parts, structure, cls):
    """This rank's results, flat."""
    if plan.local is not None:
        return tree_flatten(plan.local(plan.call, plan.inputs, parts))[0]
    args, kwargs = _local_arguments(plan, leaves, parts, structure, cls)
    if _draws_parts(func, plan):
        return _drawn(plan, func, leaves, structure, cls)
    return _flat_results(func(*args, **kwargs))


def _flat_results(result):
    single = isinstance(result, rl.Tensor)
    return [result] if single else tree_flatten(result)[0]


def _draws_parts(func, plan):
    """Whether random numbers are drawn for a tensor that is cut."""
    if not says(func, "random"):
        return False
    return any(
        isinstance(placement, Shard)
        for spec in plan.outputs
        if spec is not None
        for placement in spec.placements
    )


def _drawn(plan, func, leaves, structure, cls):
    """Draw for the whole, and keep this rank's part: as one process would draw.

    A generator is as far on all ranks afterwards, and no two parts are alike.
    """
    wholes = [
        rl.empty(each.shape, dtype=each.dtype) if isinstance(each, cls) else each
        for each in leaves
    ]
    first = next(i for i, each in enumerate(leaves) if isinstance(each, cls))
    for i, each in enumerate(leaves):
        if isinstance(each, cls) and not plan.written:
            wholes[i] = redistribute(
                each._local_tensor, each._spec, (Replicate(),) * each._spec.mesh.ndim
            )
    args, kwargs = _closed(wholes, structure)
    results = tree_flatten(func(*args, **kwargs))[0]
    parts = [
        each if spec is None else part_of(each, spec)
        for each, spec in zip(results, plan.outputs)
    ]
    if plan.written:
        leaves[first]._local_tensor.copy_(parts[0])
    return parts


def part_of(whole, spec):
    """This rank's part of a tensor that it has whole.

    Args:
        whole: the tensor.
        spec: how it is placed; of shares it is the whole.
    """
    where = spec.mesh.get_coordinate()
    for mesh_dim, placement in enumerate(spec.placements):
        if isinstance(placement, Shard):
            parts = chunks_of(whole, placement.dim, spec.mesh.size(mesh_dim))
            whole = parts[where[mesh_dim]]
    return whole.contiguous()


def _special(cls, func, args, kwargs):
    """Calls whose results are no tensors: of the whole, alike on all ranks."""
    leaves, structure = tree_flatten((args, kwargs))
    wholes = [each.full_tensor() if isinstance(each, cls) else each for each in leaves]
    args, kwargs = tree_unflatten(wholes, structure)
    return func(*args, **kwargs)


SPECIAL = frozenset(("_local_scalar_dense", "equal", "is_nonzero", "item"))


def dispatch(cls, func, args, kwargs):
    """Compute an operator on spread tensors.

    Args:
        cls: their class.
        func: the operator.
        args: its arguments.
        kwargs: those by name.

    Raises:
        RuntimeError: plain tensors are among them, or an in-place operator would have to
            change a placement.
    """
    if func._opname in SPECIAL:
        return _special(cls, func, args, kwargs)
    leaves, structure = _opened(args, kwargs)
    leaves, mesh = _spread_all(cls, func, leaves)
    key = _key_of(func, leaves, structure, cls)
    plan = None if key is None else _plans.get(key)
    if plan is None:
        args, kwargs = _closed(leaves, structure)
        plan = _make_plan(func, args, kwargs, leaves, structure, cls)
        if key is not None:
            if len(_plans) >= MOST_PLANS:
                _plans.clear()
            _plans[key] = plan
    spread = [each for each in leaves if isinstance(each, cls)]
    if mesh.get_coordinate() is None:
        parts = [each._local_tensor for each in spread]
        results = [rl.empty(0, dtype=s.tensor_meta.dtype) for s in plan.outputs if s]
    else:
        parts = [
            redistribute(each._local_tensor, each._spec, wanted)
            for each, wanted in zip(spread, plan.inputs)
        ]
        results = _run(plan, func, leaves, parts, structure, cls)
    return _wrapped(cls, plan, func, spread, results)


def _wrapped(cls, plan, func, spread, results):
    """Results as spread tensors; what was written into is itself again."""
    targets = [
        tensor
        for tensor, each in zip(spread, plan.call.inputs)
        if each.name in plan.written
    ]
    flat = []
    for number, (result, spec) in enumerate(zip(results, plan.outputs)):
        if spec is None:
            flat.append(result)
        elif number < len(targets):
            flat.append(targets[number])
        else:
            flat.append(cls(result, spec))
    if plan.written and not plan.outputs:
        return None
    return flat[0] if plan.is_single else tree_unflatten(flat, plan.structure)


def sum_to_partial(placements):
    """Placements of a gradient: shares are whole, for a share's gradient is the sum's.

    Args:
        placements: of the tensor that it is the gradient of.
    """
    return tuple(
        Replicate() if isinstance(each, Partial) else each for each in placements
    )
