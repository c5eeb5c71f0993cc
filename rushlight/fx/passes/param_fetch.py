"""What a backend needs to know of the modules that a graph calls."""

from rushlight import nn
from rushlight.fx import _names

__all__ = [
    "default_matching",
    "extract_attrs_for_lowering",
    "lift_lowering_attrs_to_nodes",
]

_CONV = [
    "weight", "bias", "kernel_size", "stride", "padding", "dilation", "groups",
    "padding_mode",
]  # fmt: skip
# A kind of module -> its version and the names of what is looked at.
module_fetch_book = {
    nn.Linear: (1, ["weight", "bias"]),
    nn.Conv2d: (1, _CONV),
    nn.BatchNorm2d: (2, ["weight", "bias", "running_mean", "running_var", "eps"]),
    nn.AdaptiveAvgPool2d: (1, []),
    nn.MaxPool2d: (
        1,
        ["kernel_size", "stride", "padding", "dilation", "return_indices", "ceil_mode"],
    ),
    nn.ReLU: (1, ["inplace"]),
}


def default_matching(name, target_version):
    """How values are found where versions differ: by their names."""
    return name


def extract_attrs_for_lowering(mod):
    """The kind of a module and the values that make it.

    Args:
        mod: the module.

    Raises:
        RuntimeError: its kind is not in ``module_fetch_book``.
    """
    found = {"name": _names.type_name(type(mod))}
    if type(mod) not in module_fetch_book:
        raise RuntimeError(
            f"{found['name']} is not in the module_fetch_book yet, please add it to the "
            "module_fetch_book"
        )
    version, names = module_fetch_book[type(mod)]
    if version < mod._version:
        raise RuntimeError(
            f"Fetcher version {version} try to fetch {found['name']} version "
            f"{mod._version}, please upgrade the module_fetch_book"
        )
    found.update((name, getattr(mod, name)) for name in names)
    return found


def lift_lowering_attrs_to_nodes(fx_module):
    """Puts ``attrs_for_lowering`` on every step that calls a module of ``nn``."""
    from rushlight.fx.graph_module import GraphModule

    inner = dict(fx_module.named_modules())
    for node in fx_module.graph.nodes:
        if node.op != "call_module":
            continue
        called = inner[node.target]
        if isinstance(called, GraphModule):
            lift_lowering_attrs_to_nodes(called)
        else:
            node.attrs_for_lowering = extract_attrs_for_lowering(called)
