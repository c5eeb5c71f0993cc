"""Passes over graphs."""

from __future__ import annotations

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
