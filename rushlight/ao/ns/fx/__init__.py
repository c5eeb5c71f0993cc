"""What comparisons of graphs are made of."""

from importlib import import_module


_LATER = (
    "graph_matcher",
    "graph_passes",
    "mappings",
    "ns_types",
    "utils",
    "weight_utils",
)


def __getattr__(name):
    if name in _LATER:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
