"""How modules change their parameters when they are converted or loaded."""

__all__ = [
    "get_overwrite_module_params_on_conversion",
    "get_swap_module_params_on_conversion",
    "set_overwrite_module_params_on_conversion",
    "set_swap_module_params_on_conversion",
]

_overwrite_module_params_on_conversion = False
_swap_module_params_on_conversion = False


def set_overwrite_module_params_on_conversion(value):
    """Choose whether converting a module gives it new parameters.

    Args:
        value: True for new ones; False for new values of those that are there.
    """
    global _overwrite_module_params_on_conversion
    _overwrite_module_params_on_conversion = value


def get_overwrite_module_params_on_conversion():
    """Whether converting a module gives it new parameters; False at first."""
    return _overwrite_module_params_on_conversion


def set_swap_module_params_on_conversion(value):
    """Choose whether converting or loading a module swaps its parameters' contents.

    Args:
        value: True for ``utils.swap_tensors`` with the new ones, so that subclasses of
            tensors may decide what loading means by their ``module_load``; False for
            new values of those that are there. It goes before the choice of new ones.
    """
    global _swap_module_params_on_conversion
    _swap_module_params_on_conversion = value


def get_swap_module_params_on_conversion():
    """Whether converting or loading a module swaps its parameters' contents."""
    return _swap_module_params_on_conversion
