"""Values in nested dicts and lists, by their paths."""

from collections.abc import Mapping

import rushlight as rl

__all__ = ["get_element", "set_element", "traverse_state_dict"]


def _is_leaf(value):
    """Whether a value is visited as a whole: no mapping, no list that holds tensors."""
    if isinstance(value, Mapping):
        return False
    if not isinstance(value, list):
        return True
    return not any(
        isinstance(each, rl.Tensor)
        or (isinstance(each, (Mapping, list)) and not _is_leaf(each))
        for each in value
    )


def traverse_state_dict(state_dict, visitor):
    """Call a function with the path and the value of each leaf.

    Args:
        state_dict: nested mappings and lists.
        visitor: called with a tuple of keys and the value.
    """

    def visit(path, value):
        if isinstance(value, Mapping):
            for key, inner in value.items():
                visit((*path, str(key)), inner)
        elif _is_leaf(value):
            visitor(path, value)
        else:
            for index, inner in enumerate(value):
                visit((*path, index), inner)

    for key, value in state_dict.items():
        visit((str(key),), value)


def _extended(container, key):
    while isinstance(container, list) and len(container) <= key:
        container.append(None)


def set_element(root_dict, path, value):
    """Put a value at a path, with the containers that lead to it.

    Args:
        root_dict: the outermost mapping.
        path: keys of mappings and indices of lists.
        value: what is put there.

    >>> found = {}
    >>> set_element(found, ("a", 1, "b"), 5)
    >>> found
    {'a': [None, {'b': 5}]}
    """
    container = root_dict
    for key, following in zip(path, path[1:]):
        fresh: dict | list = {} if isinstance(following, str) else []
        if isinstance(container, Mapping):
            container = container.setdefault(key, fresh)
            continue
        _extended(container, key)
        if container[key] is None:
            container[key] = fresh
        container = container[key]
    _extended(container, path[-1])
    container[path[-1]] = value


def get_element(root_dict, path, default_value=None):
    """The value at a path.

    Args:
        root_dict: the outermost mapping.
        path: keys of mappings and indices of lists.
        default_value: what is given where nothing is there.
    """
    value = root_dict
    for key in path:
        if isinstance(key, int):
            if not isinstance(value, list) or len(value) <= key:
                return default_value
        elif not isinstance(value, Mapping) or key not in value:
            return default_value
        value = value[key]
    return value
