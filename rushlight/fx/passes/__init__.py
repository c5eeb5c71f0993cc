"""Passes over graphs."""

from rushlight.core.lazy_imports import lazy_getattr as _lazy_getattr
from rushlight.fx.passes import (
    graph_drawer,
    graph_manipulation,
    infra,
    operator_support,
    param_fetch,
    shape_prop,
    split_module,
    split_utils,
    tools_common,
    utils,
)


__getattr__ = _lazy_getattr(__name__, ("net_min_base", "reinplace", "splitter_base"))
