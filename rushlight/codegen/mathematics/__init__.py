"""Mathematical functions as branch-free programs that vectorise.

Each is an ordinary function over the language, traced once for each type that a
kernel uses it with. In float32 they are accurate to 2 units in the last place over
the whole range (`sigmoid` to 2.3), subnormals, infinities and NaN included; in float64
to about 4, circular functions up to 2^30. `lgamma`, `digamma` and `erfinv` are looser
near their zeros in float64, as their docstrings say. No library is called.
"""

from __future__ import annotations

import functools

from rushlight.codegen import expr as ir
from rushlight.codegen.mathematics import (
    angles,
    division,
    exponential,
    float8,
    rounding,
    special,
    trigonometric,
)
from rushlight.codegen.passes.name_shared import name_shared

FUNCTIONS = {
    function.__name__.removesuffix("_"): function
    for module in (
        angles,
        division,
        exponential,
        float8,
        rounding,
        special,
        trigonometric,
    )
    for function in module.FUNCTIONS
}
NARROW = ("float16", "bfloat16")


@functools.cache
def definition(name: str, types: tuple) -> ir.Function:
    """A helper function that computes ``name`` for operands of these types.

    Raises:
        KeyError: there is no such function.
    """
    parameters = tuple(map(ir.Var, ("x", "y", "z"), types))
    function, values = FUNCTIONS[name], parameters
    if types[0].name in NARROW:
        values = tuple(ir.cast(ir.f32, value) for value in values)
    result = function(*values)
    if types[0].name in NARROW:
        result = ir.cast(types[0], result)
    lets, (value,) = name_shared([result])
    return ir.Function(name, parameters, (*lets, ir.Return(value)), value.type)
