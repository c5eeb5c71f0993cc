"""Tensor expressions and their schedules: `rushlight.te`."""
