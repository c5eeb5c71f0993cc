"""Comparisons for tests."""

from __future__ import annotations

from rushlight.testing.comparison import assert_close

__all__ = ["assert_close"]
