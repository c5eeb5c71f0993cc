"""Float32 functions of elements have no float64 instruction on GPUs, but for those listed."""

from __future__ import annotations

import re

from rushlight.codegen.emit import device
from rushlight.codegen.frontend.pointwise import Pointwise
from rushlight.codegen.target import NVIDIA, using
from rushlight.operators.elementwise import activation, binary, unary

DOUBLE = re.compile(r"^\s+(?:@!?%p\d+ )?[a-z]+[\w.]*\.f64\b", re.MULTILINE)
# Instructions in PTX, at most; a count may only fall. Angles have them beyond 800, that of
# the tangent beyond 50, in a branch: what is left of such a number of turns takes more digits
# than two float32 have, and CUDA's own functions go the same way far out. Between their
# poles the logarithm of the gamma function and its slope cross zero, where of sums of
# large terms nothing is left.
COUNTS = {
    24: ("sin", "sinc", "trigamma"),
    26: ("cos",),
    31: ("tan",),
    291: ("digamma",),
    365: ("lgamma",),
}
MOST = {name: count for count, names in COUNTS.items() for name in names}


def text_of(function, count):
    """The PTX of a float32 function of some arguments."""
    with using(NVIDIA):
        kernel = function.specialize(("float32",) * count, ("float32",), "float32")
        return device.emit_elements(kernel.function(), count + 1, 1, (), True)


def test_float32_functions_have_no_more_float64_instructions_than_listed():
    found = {}
    for module in (unary, binary, activation):
        for name, function in vars(module).items():
            if not isinstance(function, Pointwise):
                continue
            for count in (1, 2):
                try:
                    text = text_of(function, count)
                except Exception:  # it takes other arguments, or other types
                    continue
                found[name] = len(DOUBLE.findall(text))
                break
    assert len(found) > 50
    more = {name: n for name, n in found.items() if n > MOST.get(name, 0)}
    assert not more, "doubles in float32: 2 to 64 times slower on a GPU"
    assert set(MOST) <= set(found)
