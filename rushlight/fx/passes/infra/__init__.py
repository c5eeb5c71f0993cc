"""Passes as objects, and lists of them."""

from __future__ import annotations

from rushlight.fx.passes.infra import pass_manager
