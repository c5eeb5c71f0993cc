"""Every operator of PyTorch's database, compiled: the same bits, gradients and errors.

``python -m tests.graph`` goes through all of them; the suite takes a part. A call is
made as it is, and three times as a compiled function of its arguments and of copies of
them (which wait, so that nobody may read their memory): once noted, twice followed.
"""

from __future__ import annotations

import warnings

import numpy as np

import rushlight as rl
from rushlight.graph import compiled_function
from tests.fuzz import draw, judge
from tests.fuzz.specs import Side

ROUNDS = 3
# What these give is whatever was in memory, or hangs on an address.
SKIPPED = ("empty", "new_empty", "resize", "to_sparse", "data_ptr", "numpy")
GRADED = ("float32", "float64")


def answer(case, runner=None, copied=False):
    """A case's answer: by itself, or as a function that a runner follows."""
    side = Side(rl)
    args, kwargs = side.build(case.args), side.build(case.kwargs)
    function = judge.lookup(rl, case.path)

    def program(args, kwargs):
        if copied:
            args, kwargs = copies(args), copies(kwargs)
        return function(*args, **kwargs)

    rl.manual_seed(7)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if runner is None:
                result = program(args, kwargs)
            else:
                result = compiled_function.run(runner, program, (args, kwargs), {})
    except Exception as error:  # every kind is an answer
        return judge.Answer(error=error, side=side)
    return judge.Answer(result, None, side)


def copies(value):
    """Arguments with copies of their tensors."""
    if isinstance(value, rl.Tensor):
        return value.clone()
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return type(value)(map(copies, value))
    if isinstance(value, dict):
        return {key: copies(item) for key, item in value.items()}
    return value


def bits(value):
    """What a result is, to be compared."""
    if isinstance(value, rl.Tensor):
        if value.layout is not rl.strided:
            return ("sparse", tuple(value.shape), bits(value.to_dense()))
        plain = value.detach().resolve_conj().resolve_neg()
        return (
            str(value.dtype),
            tuple(value.shape),
            tuple(value.stride()) if value.numel() else (),
            value.requires_grad,
            bytes(plain.contiguous().clone().untyped_storage().tolist()),
        )
    if isinstance(value, (list, tuple)):
        return [bits(item) for item in value]
    return repr(value)


def near(a, b):
    """Whether two results are the same up to the rounding of fused kernels."""
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(near, a, b))
    if not isinstance(a, rl.Tensor) or not isinstance(b, rl.Tensor):
        return repr(a) == repr(b)
    if a.dtype != b.dtype or a.shape != b.shape or a.requires_grad != b.requires_grad:
        return False
    if a.numel() and a.stride() != b.stride():
        return False
    return rl.allclose(
        a.detach().to_dense(), b.detach().to_dense(), 1e-5, 1e-6, equal_nan=True
    )


def gradients(found):
    """The gradients of an answer, or the error that they end in."""
    try:
        return judge.gradients(found, rl)
    except Exception as error:
        return type(error).__name__


def differences(case):
    """What compiled calls do otherwise, as text."""
    for copied in False, True:
        expected = answer(case, copied=copied)
        slopes = None if expected.error is not None else gradients(expected)
        runner = compiled_function.make_runner(case.path[1])
        for turn in range(ROUNDS):
            found = answer(case, runner, copied)
            where = f"{'copies' if copied else 'as is'}, call {turn + 1}"
            if (expected.error is None) != (found.error is None):
                yield f"{where}: {found.error!r}, not {expected.error!r}"
                return
            if expected.error is not None:
                ours, theirs = type(found.error), type(expected.error)
                if ours is not theirs or str(found.error) != str(expected.error):
                    yield f"{where}: {found.error!r}, not {expected.error!r}"
                    return
                continue
            if not same(found.result, expected.result):
                yield f"{where}: {found.result!r}, not {expected.result!r}"
                return
            for key, (tensor, _) in found.side.tensors.items():
                if not same(tensor, expected.side.tensors[key][0]):
                    yield f"{where}: an argument is {tensor!r}"
                    return
            if slopes is not None and not same(gradients(found), slopes):
                yield f"{where}: gradients {gradients(answer(case))!r}, not {slopes!r}"
                return


def same(found, expected):
    """The same bits, or all but."""
    try:
        return bits(found) == bits(expected) or near(found, expected)
    except (RuntimeError, NotImplementedError, TypeError) as error:
        return f"{error}" == ""


def names():
    """The operators' numbers and names."""
    return [(at, info.name) for at, (info, _) in enumerate(draw.operators())]


def cases(at, dtypes=("float32", "int64", "complex64", "bool"), most=3):
    """Some calls of an operator, from the database's samples."""
    info, public = draw.operators()[at]
    if any(word in info.name for word in SKIPPED) or info.name in draw.UNSAFE:
        return
    paths = [("function", info.name)] if public else []
    name = info.name.rpartition(".")[2]
    if callable(info.inplace_variant):
        paths.append(("method", f"{name}_"))
    if not paths:
        paths.append(("method", name))
    for dtype in dtypes:
        found = draw.samples(at, dtype)
        step = max(len(found) // most, 1)
        for number, (args, kwargs) in enumerate(found[::step][:most]):
            path = paths[number % len(paths)]
            if path[0] == "method" and not hasattr(rl.Tensor, path[1]):
                path = ("function", info.name)
            case = draw.Case(path, args, kwargs, [dtype])
            if judge.present(case):
                yield case


_ = np
