"""Nests of tuples, lists and dictionaries as their leaves, and back."""

from __future__ import annotations

from collections import OrderedDict, defaultdict

LEAF = None


def flatten(tree):
    """``(leaves, spec)`` of a nest.

    >>> flatten({"a": 1, "b": (2, [3])})[0]
    [1, 2, 3]
    """
    leaves = []
    return leaves, _collect(tree, leaves)


def _collect(tree, leaves):
    if isinstance(tree, (tuple, list)):
        return type(tree), None, [_collect(item, leaves) for item in tree]
    if type(tree) in (dict, OrderedDict, defaultdict):
        parts = [_collect(item, leaves) for item in tree.values()]
        return type(tree), list(tree), parts
    if tree is None:
        return type(None), None, []
    leaves.append(tree)
    return LEAF


def unflatten(leaves, spec):
    """The nest of a spec with other leaves."""
    return _build(iter(leaves), spec)


def _build(leaves, spec):
    if spec is LEAF:
        return next(leaves)
    kind, keys, parts = spec
    if kind is type(None):
        return None
    built = [_build(leaves, part) for part in parts]
    if keys is not None:
        pairs = zip(keys, built)
        return defaultdict(None, pairs) if kind is defaultdict else kind(pairs)
    return kind(*built) if hasattr(kind, "_fields") else kind(built)


def mapped(function, tree):
    """The nest with a function applied to its leaves."""
    leaves, spec = flatten(tree)
    return unflatten([function(leaf) for leaf in leaves], spec)


def spread(tree, spec):
    """Leaves for a nest from one that may stop earlier; None where it does not fit.

    >>> spread(0, flatten((1, [2, 3]))[1])
    [0, 0, 0]
    """
    if spec is LEAF:
        return [tree]
    kind, keys, parts = spec
    if kind is type(None):
        return []
    if keys is not None and isinstance(tree, dict):
        if list(tree) != keys and set(tree) != set(keys):
            return None
        items = [tree[key] for key in keys]
    elif keys is None and isinstance(tree, (tuple, list)):
        if len(tree) != len(parts) or isinstance(tree, list) != issubclass(kind, list):
            return None
        items = list(tree)
    elif tree is None or isinstance(tree, (int, bool)):
        items = [tree] * len(parts)
    else:
        return None
    found = []
    for item, part in zip(items, parts):
        inner = spread(item, part)
        if inner is None:
            return None
        found += inner
    return found
