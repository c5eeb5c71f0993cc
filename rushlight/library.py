"""Operators from outside, under PyTorch's name for the place."""

from __future__ import annotations

from rushlight.dispatch.library import (
    CustomOpDef,
    Library,
    custom_op,
    define,
    fallthrough_kernel,
    impl,
    infer_schema,
    register_autograd,
    register_fake,
    register_kernel,
    register_torch_dispatch,
    register_vmap,
)

__all__ = [
    "CustomOpDef",
    "Library",
    "custom_op",
    "define",
    "fallthrough_kernel",
    "impl",
    "infer_schema",
    "register_autograd",
    "register_fake",
    "register_kernel",
    "register_torch_dispatch",
    "register_vmap",
]
