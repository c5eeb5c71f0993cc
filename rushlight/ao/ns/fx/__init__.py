"""What comparisons of graphs are made of."""

from rushlight.core.lazy_imports import lazy_getattr as _lazy_getattr


_LATER = (
    "graph_matcher",
    "graph_passes",
    "mappings",
    "ns_types",
    "utils",
    "weight_utils",
)


__getattr__ = _lazy_getattr(__name__, _LATER)
