"""Passes as objects, and lists of them."""

from rushlight.fx.passes.infra import pass_manager
