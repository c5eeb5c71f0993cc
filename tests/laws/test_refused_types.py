"""What a kernel does with types that most refuse, in PyTorch's words: `TypeSupport`."""

import warnings

import pytest

import rushlight as rl

torch = pytest.importorskip("torch", reason="the oracle is not installed")

RARE = "complex64 complex32 float8_e5m2 float8_e8m0fnu float8_e4m3fn".split()
UNARY = """
    erf erfc erfinv lgamma digamma floor ceil trunc round sign signbit relu i0 gelu exp2
    exp hardtanh rad2deg isposinf isneginf square sgn abs isinf isfinite isnan neg sum mean
    prod amax amin any all argmax argmin nansum count_nonzero sqrt tanh
""".split()
BINARY = """
    add sub mul maximum minimum fmax fmin heaviside pow bitwise_left_shift floor_divide eq ne
""".split()


def outcome(library, name, dtype, operands):
    """``"ok"``, or the error's type and first line."""
    call = getattr(library, name, None) or getattr(library.nn.functional, name)
    x = library.ones(3).to(getattr(library, dtype))
    try:
        call(*[x] * operands)
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return "ok"


@pytest.mark.parametrize("dtype", RARE)
def test_rare_types_are_taken_or_refused_as_pytorch_does(dtype):
    differences = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # complex halves are experimental there
        for operands, names in enumerate((UNARY, BINARY), 1):
            for name in names:
                theirs = outcome(torch, name, dtype, operands)
                ours = outcome(rl, name, dtype, operands)
                if ours != theirs:
                    differences.append((name, ours, theirs))
    assert not differences
