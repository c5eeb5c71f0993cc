"""Tables of rows in bytes or half bytes, each row with a scale and a least number.

A packed row holds its integers, then scale and least number: in single precision behind
bytes, in half precision behind half and quarter bytes.
"""

from __future__ import annotations


def operators(bag):
    """Schemas, dispatch keys and functions."""
    return []
