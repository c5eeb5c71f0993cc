"""Functions that give futures of their results."""

__all__ = ["async_execution"]


def async_execution(fn):
    """A function that gives a future: the caller gets what is in it.

    Args:
        fn: the function.
    """
    fn._wraps_async = True
    return fn
