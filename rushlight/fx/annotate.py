"""Types written on proxies while a program is recorded."""

from rushlight.fx.proxy import Proxy

__all__ = ["annotate"]


def annotate(val, type):
    """The value, with a type noted at its step where it is a proxy.

    Args:
        val: the value.
        type: what to note.

    Raises:
        RuntimeError: another type is noted there already.
    """
    if not isinstance(val, Proxy):
        return val
    if val.node.type:
        raise RuntimeError(
            "Tried to annotate a value that already had a type on it! Existing type is "
            f"{val.node.type} and new type is {type}. This could happen if you tried to "
            "annotate a function parameter value (in which case you should use the type "
            "slot on the function signature) or you called annotate on the same value twice"
        )
    val.node.type = type
    return val
