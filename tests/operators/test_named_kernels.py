"""What tables and declarations name is there: kernels and formulas are loaded late."""

import importlib

from rushlight.dispatch.dispatcher import every_operator
from rushlight.dispatch.python_kernels import LazyKernel


def named(op):
    """Pairs of module and attribute that an operator's kernels and formula have."""
    kernels = [*op.kernels.values(), *op.by_backend.values(), op.composite]
    for kernel in kernels:
        if isinstance(kernel, LazyKernel):
            yield kernel.module, kernel.attribute
    if op.derivative is not None and op.derivative.module:
        yield op.derivative.module, op.derivative.function


def test_every_kernel_and_formula_that_an_operator_names_is_there():
    pairs = {pair: op.name for op in every_operator() for pair in named(op)}
    assert len(pairs) > 1000
    missing = [
        f"{name}: {module}.{attribute}"
        for (module, attribute), name in pairs.items()
        if not hasattr(importlib.import_module(module), attribute)
    ]
    assert not missing
