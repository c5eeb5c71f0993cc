"""Classes of the program's own among its arguments and results."""

import dataclasses

from rushlight.fx._pytree import register_pytree_flatten_spec
from rushlight.utils import _pytree


def register_dataclass(cls, *, serialized_type_name=None):
    """Has a dataclass be an argument, or a result, of programs that are exported.

    Its fields are taken one by one; those that are None are left out.

    Args:
        cls: the class.
        serialized_type_name: its name in files; without it, programs that have such
            arguments cannot be saved.

    Raises:
        AssertionError: it is no dataclass.

    >>> import dataclasses, rushlight as rl
    >>> @dataclasses.dataclass
    ... class Pair:
    ...     one: rl.Tensor
    ...     other: rl.Tensor
    >>> register_dataclass(Pair)
    >>> class Sum(rl.nn.Module):
    ...     def forward(self, pair):
    ...         return pair.one + pair.other
    >>> program = rl.export.export(Sum(), (Pair(rl.ones(2), rl.ones(2)),))
    >>> program.graph_signature.user_inputs
    ('pair_one', 'pair_other')
    """
    if not dataclasses.is_dataclass(cls) or not isinstance(cls, type):
        raise AssertionError(f"Only dataclasses can be registered with this: {cls}")
    names = [field.name for field in dataclasses.fields(cls)]

    def flatten(value):
        kept = [name for name in names if getattr(value, name) is not None]
        absent = [name for name in names if name not in kept]
        return [getattr(value, name) for name in kept], [kept, absent]

    def unflatten(values, context):
        kept, absent = context
        return cls(**dict(zip(kept, values)), **dict.fromkeys(absent))

    def flatten_with_keys(value):
        values, context = flatten(value)
        keys = [_pytree.GetAttrKey(name) for name in context[0]]
        return list(zip(keys, values)), context

    _pytree.register_pytree_node(
        cls,
        flatten,
        unflatten,
        serialized_type_name=serialized_type_name,
        flatten_with_keys_fn=flatten_with_keys,
    )
    register_pytree_flatten_spec(
        cls, lambda value, spec: [getattr(value, name) for name in spec.context[0]]
    )
