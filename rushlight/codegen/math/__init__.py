"""Mathematical functions as branch-free programs that vectorise.

Each is an ordinary function over the language, traced once for each type that a
kernel uses it with. Most are accurate to 0.7 units in the last place, the others to 2
(`sigmoid` to 2.3), subnormals, infinities and NaN included; `digamma` is looser near its
zeros. No library is called.
"""

import functools

from rushlight.ir import expr as ir
from rushlight.codegen.math import (
    angles,
    bessel,
    division,
    error,
    exponential,
    float8,
    gamma,
    plain,
    rounding,
    trigonometric,
)
from rushlight.codegen.math.pieces import permuted_floats, rows_from_memory
from rushlight.codegen.passes.name_shared import name_shared
from rushlight.codegen.target import Target, using

FUNCTIONS = {
    function.__name__.removesuffix("_"): function
    for module in (
        angles,
        bessel,
        division,
        error,
        exponential,
        float8,
        gamma,
        plain,
        rounding,
        trigonometric,
    )
    for function in module.FUNCTIONS
}
# The functions behind `rarely`: called, so that their numbers hold no register where the
# usual way runs.
RARE = frozenset({
    "far_angle", "far_angle_high", "far_angle_low", "far_cos", "far_erfc", "far_erfcinv",
    "far_erfinv",
    "far_exp", "far_exp2", "far_i0", "far_i1", "far_scaled_i0", "far_scaled_i1",
    "far_sin", "far_tan",
    "far_lgamma", "far_log", "far_log10", "far_log2", "far_remainder",
})  # fmt: skip
NARROW = ("float16", "bfloat16")


def definition(name: str, types: tuple, target: Target) -> ir.Function:
    """A helper function that computes ``name`` for operands of these types.

    Raises:
        KeyError: there is no such function.
    """
    with using(target):
        return _definition(name, types, permuted_floats(), rows_from_memory())


@functools.cache
def _definition(name, types, permuted, by_rows):
    parameters = tuple(map(ir.Var, ("x", "y", "z"), types))
    function, values = FUNCTIONS[name], parameters
    widened = types[0].name in NARROW and name != "from_float16"
    if widened:
        values = tuple(ir.cast(ir.f32, value) for value in values)
    result = function(*values)
    if widened:
        result = ir.cast(types[0], result)
    lets, (value,) = name_shared([result])
    return ir.Function(name, parameters, (*lets, ir.Return(value)), value.type)
