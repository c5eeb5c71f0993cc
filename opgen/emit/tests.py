"""Writes the table of samples that the tests of every operator run through.

A sample is ``between(low, high)``: tensors of any shape with elements in that range.
Elementwise operators have one by default, unless they say ``none``.
"""

import re

from opgen.formulas import NOT_IMPLEMENTED

_BETWEEN = re.compile(r"between\((-?[\d.]+), (-?[\d.]+)\)$")
DEFAULT = (-3.0, 3.0)

_HEAD = '''\
"""What the tests feed each operator; written by opgen."""

# (name, overload, elements from, to, number of tensors, differentiable, reference)
SAMPLES = (
'''


def sampled(entry):
    """The range of an operator's sample tensors, or None if it has no sample.

    Raises:
        ValueError: the declaration's sample is not ``between(low, high)``.
    """
    if entry.sample == "none":
        return None
    if entry.sample:
        match = _BETWEEN.match(entry.sample)
        if match is None:
            raise ValueError(f"'{entry.sample}' is not 'between(low, high)'")
        return float(match[1]), float(match[2])
    required = [arg for arg in entry.schema.args if arg.default is ...]
    plain = all(arg.kind in (0, 4) for arg in required)
    public = "function" in entry.variants and not entry.name.startswith("_")
    return DEFAULT if entry.kind == "pointwise" and plain and public else None


def write_samples(entries):
    """The text of the samples' module."""
    rows = []
    for entry in entries:
        domain = sampled(entry)
        if domain is None:
            continue
        tensors = sum(arg.default is ... for arg in entry.schema.args)
        texts = [formula.text for formula in entry.derivative]
        smooth = bool(texts) and not any(map(NOT_IMPLEMENTED.fullmatch, texts))
        rows.append(
            f"    ({entry.name!r}, {entry.schema.overload!r}, {domain[0]}, "
            f"{domain[1]}, {tensors}, {smooth}, {entry.reference!r}),\n"
        )
    return _HEAD + "".join(rows) + ")\n"
