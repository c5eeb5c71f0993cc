"""Tensor expressions and their schedules, for kernels of one's own.

    from rushlight import te

    x = te.placeholder((1024, 512), name="x")
    k = te.reduce_axis((0, 512), name="k")
    y = te.compute((1024,), lambda i: te.sum(x[i, k], axis=k), name="y")
    s = te.create_schedule(y)
    outer, inner = s[y].split(y.axis[0], factor=16)
    s[y].reorder(outer, k, inner)
    s[y].vectorize(inner)
    s[y].parallel(outer)
    print(te.lower(s, [x, y]))
    sums = te.build(s, [x, y])

Element functions (``exp``, ``tanh``, ``minimum``, ...) are those of
``rushlight.codegen.language``.
"""

from rushlight.codegen.language import maximum, minimum
from rushlight.codegen.language import select as if_then_else
from rushlight.tensor_expressions.build import build
from rushlight.tensor_expressions.expressions import (
    compute,
    intrinsic,
    max,
    min,
    placeholder,
    prod,
    reduce_axis,
    sum,
)
from rushlight.tensor_expressions.lower import lower
from rushlight.tensor_expressions.schedule import (
    Schedule,
    Stage,
    create_schedule,
)

__all__ = [
    "Schedule",
    "Stage",
    "build",
    "compute",
    "create_schedule",
    "if_then_else",
    "intrinsic",
    "lower",
    "max",
    "maximum",
    "min",
    "minimum",
    "placeholder",
    "prod",
    "reduce_axis",
    "sum",
]
