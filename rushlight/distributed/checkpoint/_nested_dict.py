"""Nested states as one level of names, and back."""

from rushlight.distributed.checkpoint._traverse import set_element, traverse_state_dict

__all__ = ["flatten_state_dict", "unflatten_state_dict"]


def flatten_state_dict(state_dict):
    """All leaves by their paths, joined by dots, and the paths by these names.

    Args:
        state_dict: nested mappings and lists.

    Raises:
        ValueError: two paths become one name.

    >>> flatten_state_dict({"a": {"b": 1}})
    ({'a.b': 1}, {'a.b': ('a', 'b')})
    """
    flat, paths = {}, {}

    def take(path, value):
        name = ".".join(map(str, path))
        if name in flat:
            raise ValueError(f"duplicated flatten key {name}")
        flat[name], paths[name] = value, path

    traverse_state_dict(state_dict, take)
    return flat, paths


def unflatten_state_dict(state_dict, mapping):
    """The nested state that was made flat.

    Args:
        state_dict: values by name.
        mapping: the path of each name.
    """
    nested: dict = {}
    for key, value in state_dict.items():
        set_element(nested, mapping[key], value)
    return nested
