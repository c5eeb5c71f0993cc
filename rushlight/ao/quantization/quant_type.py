"""Kinds of quantization."""

import enum

__all__ = ["QuantType"]


class QuantType(enum.IntEnum):
    """When scales of activations are found."""

    DYNAMIC = 0
    STATIC = 1
    QAT = 2
    WEIGHT_ONLY = 3


_NAMES = {
    QuantType.STATIC: "static", QuantType.DYNAMIC: "dynamic", QuantType.QAT: "qat",
    QuantType.WEIGHT_ONLY: "weight_only",
}  # fmt: skip


def _get_quant_type_to_str(quant_type):
    return _NAMES[quant_type]


def _quant_type_from_str(name):
    for kind, word in _NAMES.items():
        if word == name:
            return kind
    raise ValueError(f"Unknown QuantType name '{name}'")
