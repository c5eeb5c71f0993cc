"""Nests of values taken apart along a description that is known already."""

from collections import namedtuple
from typing import Any

from rushlight.utils._pytree import LeafSpec, is_namedtuple_class, tree_leaves

SUPPORTED_NODES: dict[type, Any] = {}
SUPPORTED_NODES_EXACT_MATCH: dict[type, Any] = {}


def register_pytree_flatten_spec(
    cls, flatten_fn_spec, flatten_fn_exact_match_spec=None
):
    """Lets nests of a kind be taken apart along a description.

    Args:
        cls: the kind.
        flatten_fn_spec: gives the children of a value that a description names.
        flatten_fn_exact_match_spec: says whether a value has exactly those.
    """
    SUPPORTED_NODES[cls] = flatten_fn_spec
    SUPPORTED_NODES_EXACT_MATCH[cls] = flatten_fn_exact_match_spec


def _deregister_pytree_flatten_spec(cls):
    del SUPPORTED_NODES[cls]
    del SUPPORTED_NODES_EXACT_MATCH[cls]


def tree_flatten_spec(pytree, spec):
    """The leaves of a nest, along a description of a nest like it.

    Args:
        pytree: the nest.
        spec: the description, of ``tree_flatten``.

    Raises:
        RuntimeError: the description has a kind of nest that cannot be taken apart so.

    >>> from rushlight.utils._pytree import tree_structure
    >>> tree_flatten_spec([3, {"a": 4}], tree_structure([0, {"a": 0}]))
    [3, 4]
    """
    if isinstance(spec, LeafSpec) or spec.is_leaf():
        return [pytree]
    kind = namedtuple if is_namedtuple_class(spec.type) else spec.type
    if kind not in SUPPORTED_NODES:
        raise RuntimeError(
            f"{type(pytree)} does not have a flatten_fn_spec associated with it. Please "
            "register one with torch.fx._pytree.register_pytree_flatten_spec. If you have "
            "serialized your model, please make sure that any custom pytrees have been "
            "registered before loading it."
        )
    children = SUPPORTED_NODES[kind](pytree, spec)
    exact = SUPPORTED_NODES_EXACT_MATCH.get(kind)
    if exact and not exact(pytree, spec):
        raise RuntimeError(
            f"Cannot flatten pytree {pytree}, given spec: {spec}: they have different "
            f"structures; the pytree has {len(tree_leaves(pytree))} leaves"
        )
    leaves = []
    for child, child_spec in zip(children, spec.children(), strict=False):
        leaves += tree_flatten_spec(child, child_spec)
    return leaves


def _items(pytree, spec):
    return [pytree[place] for place in range(spec.num_children)]


def _same_length(pytree, spec):
    return len(pytree) == spec.num_children


register_pytree_flatten_spec(
    dict, lambda pytree, spec: [pytree[key] for key in spec.context], _same_length
)
for _kind in (list, tuple, namedtuple):
    register_pytree_flatten_spec(_kind, _items, _same_length)
