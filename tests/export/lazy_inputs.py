"""Every operator of PyTorch's database on operands that are something else's memory.

An operand is a lazy conjugate, a lazy negative or a view that repeats elements; the program
makes it, or is given it. Or the call is one of `vmap` or `functionalize`. Recorded by
``make_fx``, exported and taken apart, it gives eager's numbers.

``python -m tests.export.lazy_inputs`` goes through all of them; the suite takes a part.
"""

from __future__ import annotations

import sys

import rushlight as rl
from rushlight.fx.experimental.proxy_tensor import make_fx
from tests.export import sweep
from tests.fuzz import draw, judge
from tests.fuzz.specs import Side
from tests.graph.sweep import near

DTYPES = {"conjugate": "complex64"}  # of operands; float32 else
KINDS = ("conjugate", "negative", "view", "batched", "functional")
WAYS = ("make_fx", "exported", "taken apart")
# What these give is whatever was in memory, or where it is.
UNDEFINED = ("empty", "resize", "data_ptr", "as_strided")

_READS = "a number is read, which PyTorch's recorders refuse, too"
_POSITIONS = "the places are a tensor's numbers, and the record keeps those that it saw"
_LOST = "what is written to a lazy negative's statistics is lost, as in PyTorch"
KNOWN = {
    **dict.fromkeys(("allclose", "equal", "cov", "corrcoef"), _READS),
    "nn.functional.gaussian_nll_loss": _READS,
    "nn.functional.rrelu": _READS,
    "tensor_split": _POSITIONS,
    "native_batch_norm": _LOST,
    "nn.functional.batch_norm": _LOST,
    "nn.functional.pad": "modes of padding take no more dimensions in PyTorch either",
    "stft": "modes of padding take no more dimensions in PyTorch either",
}


def lazy(kind, x):
    """The operand in another's memory, or as it is."""
    if kind == "conjugate" and x.is_complex():
        return x.conj()
    if x.dtype is not rl.float32:
        return x
    if kind == "negative":
        return rl.complex(x * 0, x).conj().imag
    return x.unsqueeze(-1).expand(*x.shape, 2).select(-1, 1) if kind == "view" else x


def case_of(at, dtype):
    """The first call of the database for elements of this type."""
    info, public = draw.operators()[at]
    if info.name in sweep.SKIPPED or info.name in draw.UNSAFE:
        return None
    path = ("function", info.name)
    if not public:
        path = ("method", info.name.rpartition(".")[2])
    for args, kwargs in draw.samples(at, dtype)[:1]:
        case = draw.Case(path, args, kwargs, [dtype])
        if judge.present(case):
            return case
    return None


def program_of(case, kind, inside):
    """A module that makes the call, and what gives its arguments."""
    module, specs = sweep.program_of(rl, case)

    class Program(rl.nn.Module):
        def forward(self, *tensors):
            if kind == "batched":
                return rl.vmap(module, randomness="different")(*tensors)
            if kind == "functional":
                return rl.func.functionalize(module)(*tensors)
            if inside:
                tensors = [lazy(kind, one) for one in tensors]
            return module(*tensors)

    def given(turned):
        chosen = [sweep.turned(one) for one in specs] if turned else specs
        plain = [one.detach() for one in Side(rl).build(list(chosen))]
        if kind == "batched":
            return [rl.stack([one, one]) for one in plain]
        return plain if inside else [lazy(kind, one) for one in plain]

    return Program(), given


def recorded(way, module, given):
    """The program of a module, recorded in one of the ways."""
    if way == "make_fx":
        return make_fx(module)(*given)
    program = rl.export.export(module, tuple(given))
    if way == "taken apart":
        program = program.run_decompositions()
    return program.module()


def dense(value):
    """A result with its tensors laid out alike."""
    if isinstance(value, (list, tuple)):
        return [dense(one) for one in value]
    if not isinstance(value, rl.Tensor) or value.layout is not rl.strided:
        return sweep.as_lists(value)
    return value.detach().clone(memory_format=rl.contiguous_format)


def differences(at, kind):
    """What the recorded calls of an operator do otherwise than eager's, as text."""
    case = case_of(at, DTYPES.get(kind, "float32"))
    if case is None or any(word in case.path[1] for word in UNDEFINED):
        return
    levels = kind in ("batched", "functional")
    for inside in (True,) if levels else (True, False):
        module, given = program_of(case, kind, inside)
        if isinstance(sweep.run(module, given(False))[0], str):
            continue
        for way in WAYS[:1] if levels else WAYS:
            fault = _fault(way, module, given)
            if fault:
                yield f"{way}, {'made' if inside else 'given'}: {fault}"


def _fault(way, module, given):
    rl.manual_seed(7)
    with sweep.quietly():
        try:
            program = recorded(way, module, given(False))
        except Exception as error:  # every kind is an answer
            return f"{type(error).__name__}: {sweep.first_line(error)}"
    for turned in False, True:
        expected, left = sweep.run(module, given(turned))
        found, right = sweep.run(program, given(turned))
        if isinstance(expected, str) and turned:
            continue
        if not near(dense(found), dense(expected)):
            return f"gives {found!r}, not {expected!r}"
        if not near(dense(left), dense(right)):
            return f"leaves {right!r}, not {left!r}"
    return None


def main():
    """Tells what differs and is not known."""
    bad = 0
    for at, name in sweep.names():
        for kind in KINDS if name not in KNOWN else ():
            for text in differences(at, kind):
                bad += 1
                print(f"{name}, {kind}, {text}", flush=True)
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
