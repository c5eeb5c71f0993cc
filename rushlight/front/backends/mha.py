"""The fast path of ``MultiheadAttention``, which there is one way through only."""

__all__ = ["get_fastpath_enabled", "set_fastpath_enabled"]

_chosen = {"fastpath": True}


def get_fastpath_enabled():
    """What ``set_fastpath_enabled`` was told last."""
    return _chosen["fastpath"]


def set_fastpath_enabled(value):
    """Notes whether a fast path is wished; values are the same either way."""
    _chosen["fastpath"] = bool(value)
