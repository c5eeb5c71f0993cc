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

Element functions (``exp``, ``tanh``, ``select``, ...) are those of
``rushlight.codegen.language``.
"""

from rushlight.codegen.build import build
from rushlight.codegen.frontend.te import (
    compute,
    intrinsic,
    max,
    min,
    placeholder,
    prod,
    reduce_axis,
    sum,
)
from rushlight.codegen.schedule.lower_schedule import lower
from rushlight.codegen.schedule.te_schedule import (
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
    "intrinsic",
    "lower",
    "max",
    "min",
    "placeholder",
    "prod",
    "reduce_axis",
    "sum",
]
