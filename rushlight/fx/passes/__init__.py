"""Passes over graphs."""

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


def __getattr__(name):
    if name in ("net_min_base", "reinplace", "splitter_base"):  # which few programs use
        from importlib import import_module

        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
