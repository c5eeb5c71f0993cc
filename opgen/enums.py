"""Writes the enumerations of `rushlight.dispatch.enums` for compiled modules."""

from runpy import run_path

from opgen.sources import ROOT

PLACE = ROOT / "rushlight" / "dispatch" / "enums.pxd"
# Read by its path: before the first build the package cannot be imported.
PREFIXES = run_path(str(PLACE.with_suffix(".py")))["PREFIXES"]


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
