"""Writes the enumerations of `rushlight.dispatch.enums` for compiled modules."""

import sys

from opgen import schema  # loads the enumerations by their path
from opgen.sources import ROOT

PLACE = ROOT / "rushlight" / "dispatch" / "enums.pxd"
PREFIXES = sys.modules[schema.ENUMS].PREFIXES


def declared():
    """The text of ``enums.pxd``.

    >>> "    ARG_TENSOR = 0" in declared().splitlines()
    True
    """
    lines = ["# Written by opgen, from dispatch/enums.py."]
    for kind, prefix in PREFIXES.items():
        lines += ["", f"# {kind.__doc__}", "cdef enum:"]
        lines += [
            f"    {prefix}{name} = {number:d}"
            for name, number in kind.__members__.items()
        ]
    return "\n".join(lines) + "\n"
