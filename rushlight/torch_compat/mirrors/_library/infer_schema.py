"""Schemas read off the annotations of functions."""

from rushlight.dispatch.infer import infer_schema

__all__ = ["infer_schema"]
