"""What nodes of the graph show: names, and saved values by PyTorch's attributes."""

from importlib import import_module

_SHAPE, _SIZES = "_shape", "_sym_sizes"


def name_of(node, place: str) -> str:
    """What a declared function calls a node: ``:module:function:names of saved values``."""
    _, module, function, saved = place.split(":")
    values = [getattr(node, f"_saved_{name}") for name in saved.split(",") if name]
    return getattr(import_module(module), function)(node, *values)


def parameter_of(name: str) -> str:
    """The formula's parameter behind an attribute.

    >>> parameter_of("self_sym_sizes"), parameter_of("exponent")
    ('self_shape', 'exponent')
    """
    return name.removesuffix(_SIZES) + _SHAPE if name.endswith(_SIZES) else name


def saved_attributes(parameters, tensors) -> list[str]:
    """The attributes by which a formula's saved values are read.

    >>> saved_attributes(("self", "self_shape"), (True, False))
    ['_raw_saved_self', '_saved_self', '_saved_self_sym_sizes']
    """
    shown = [
        name[:-6] + _SIZES if name.endswith(_SHAPE) else name for name in parameters
    ]
    raw = [f"_raw_saved_{name}" for name, one in zip(shown, tensors) if one]
    return [*raw, *(f"_saved_{name}" for name in shown)]
