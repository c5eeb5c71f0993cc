"""What a switch is given must be True or False: a number or a tensor is a mistake."""


def truth_of_argument(call, argument, position, value):
    """A truth value that a call was given, as PyTorch's parser of arguments takes it.

    Raises:
        TypeError: it is none.

    >>> truth_of_argument("set_grad_enabled", "enabled", 1, True)
    True
    """
    if not isinstance(value, bool):
        place = "" if position is None else f" (position {position})"
        raise TypeError(
            f"{call}(): argument '{argument}'{place} must be bool, not {kind_of(value)}"
        )
    return value


def truth_of_switch(setter, value):
    """A truth value that a setter of PyTorch's core was given.

    Raises:
        RuntimeError: it is none.

    >>> truth_of_switch("set_sdp_use_math", False)
    False
    """
    if not isinstance(value, bool):
        raise RuntimeError(f"{setter} expects a bool, but got {kind_of(value)}")
    return value


def kind_of(value):
    """The name of a value's type, as PyTorch's errors have it."""
    kind = type(value)
    return f"numpy.{kind.__name__}" if kind.__module__ == "numpy" else kind.__name__
