"""Numbers that stand for one value in each dimension."""

from collections.abc import Iterable

__all__ = ["consume_prefix_in_state_dict_if_present"]


def _ntuple(count, name="parse"):
    """A function that turns a number, or an iterable, into a tuple."""

    def parse(value):
        if isinstance(value, Iterable):
            return tuple(value)
        return (value,) * count

    parse.__name__ = name
    return parse


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")


def _reverse_repeat_tuple(values, times):
    """The values from last to first, each one ``times`` times."""
    return tuple(value for value in reversed(values) for _ in range(times))


def _list_with_default(out_size, defaults):
    """Sizes with those that are None taken from the end of others."""
    if isinstance(out_size, int):
        return out_size
    if len(defaults) <= len(out_size):
        raise ValueError(f"Input dimension should be at least {len(out_size) + 1}")
    pairs = zip(out_size, defaults[-len(out_size) :])
    return [default if size is None else size for size, default in pairs]


def consume_prefix_in_state_dict_if_present(state_dict, prefix):
    """Take a prefix off the keys of a state, such as ``module.`` of ``DataParallel``.

    Args:
        state_dict: the state, which is changed.
        prefix: what the keys begin with; other keys stay.

    >>> state = {"module.weight": 1, "bias": 2}
    >>> consume_prefix_in_state_dict_if_present(state, "module.")
    >>> state
    {'bias': 2, 'weight': 1}
    """
    for key in list(state_dict):
        if key.startswith(prefix):
            state_dict[key[len(prefix) :]] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", {})
    for key in list(metadata):
        if key and (key == prefix.replace(".", "") or key.startswith(prefix)):
            metadata[key[len(prefix) :]] = metadata.pop(key)


def factory_kwargs(kwargs):
    """Where a module's parameters are made: ``device``, ``dtype`` and ``memory_format``.

    Args:
        kwargs: these, or a dictionary of them as ``factory_kwargs``; None for nothing.

    Raises:
        TypeError: there is something else, or one of them twice.

    >>> factory_kwargs({"factory_kwargs": {"device": "cpu"}})
    {'device': 'cpu'}
    """
    if kwargs is None:
        return {}
    known = {"device", "dtype", "memory_format"}
    strange = kwargs.keys() - (known | {"factory_kwargs"})
    if strange:
        raise TypeError(f"unexpected kwargs {strange}")
    found = dict(kwargs.get("factory_kwargs", {}))
    for name in known & kwargs.keys():
        if name in found:
            raise TypeError(
                f"{name} specified twice, in **kwargs and in factory_kwargs"
            )
        found[name] = kwargs[name]
    return found
