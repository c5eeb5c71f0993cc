"""Lists and dicts that cannot change: what the steps of a graph hold.

A graph knows who uses whom because it is told when arguments change. A list that could be
changed behind its back would break that, so that arguments are kept in these.
"""

from rushlight.utils import _pytree

__all__ = ["immutable_dict", "immutable_list"]


def _refuse(self, *args, **kwargs):
    raise TypeError(
        f"{type(self).__name__!r} object does not support mutation. If you are attempting "
        "to modify the kwargs or args of a torch.fx.Node object,\n"
        "instead create a new copy of it and assign the copy to the node:\n\n"
        "    new_args = ...  # copy and mutate args\n"
        "    node.args = new_args"
    )


class immutable_list(list):
    """A list that refuses every change and can be hashed.

    >>> hash(immutable_list([1, 2])) == hash(immutable_list([1, 2]))
    True
    """

    __delitem__ = __iadd__ = __imul__ = __setitem__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __hash__(self):
        return hash(tuple(self))

    def __reduce__(self):
        return type(self), (tuple(self),)


class immutable_dict(dict):
    """A dict that refuses every change and can be hashed.

    >>> immutable_dict(a=1)["a"]
    1
    """

    __delitem__ = __ior__ = __setitem__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __hash__(self):
        return hash(frozenset(self.items()))

    def __reduce__(self):
        return type(self), (dict(self),)


def _register(kind, plain):
    """Lets trees of values be taken apart at these, as at the plain kinds."""
    nodes = _pytree.SUPPORTED_NODES[plain]
    _pytree.register_pytree_node(
        kind,
        nodes.flatten_fn,
        lambda values, context: kind(nodes.unflatten_fn(values, context)),
        serialized_type_name=f"torch.fx.immutable_collections.{kind.__name__}",
        flatten_with_keys_fn=nodes.flatten_with_keys_fn,
    )


_register(immutable_list, list)
_register(immutable_dict, dict)
