"""Marks of what stays as it is between versions; here they only mark."""

import textwrap

__all__ = ["compatibility"]


def compatibility(is_backward_compatible):
    """A decorator that notes in a docstring whether a name will stay.

    Args:
        is_backward_compatible: whether it will.

    >>> @compatibility(is_backward_compatible=False)
    ... def young():
    ...     "New."
    >>> "not guaranteed" in young.__doc__
    True
    """

    def mark(named):
        note = textwrap.dedent(getattr(named, "__doc__", None) or "")
        if is_backward_compatible:
            note += (
                "\n.. note::\n    Backwards-compatibility for this API is guaranteed.\n"
            )
        else:
            note += (
                "\n.. warning::\n    This API is experimental and is *not* "
                "backward-compatible: stability is not guaranteed.\n"
            )
        named.__doc__ = note
        named._backward_compatible = is_backward_compatible
        return named

    return mark
