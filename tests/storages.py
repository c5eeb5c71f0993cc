"""Operators of tensors whose storage was resized below them: refused, never read.

python -m tests.storages                     # every operator of PyTorch's database
python -m tests.storages --only '^softmax$' --ways call,compiled -v

Each call is warmed, so that plans and programs stand; then the storage of one operand
after the other is resized to nothing, and to an element less than the operand spans. The
call is refused, or reads nothing of it and gives what it gave; with the storage resized
back, and its bytes written again, it gives what it gave. Every operator runs in a process
of its own: one that ends it is a failure, and not the end.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import os
import re
import signal
import sys
import warnings

import rushlight as rl
from tests.fuzz import draw
from tests.plans import UNWRITTEN, Build, Variant, lookup

WARM = 3  # calls before storages are resized
PATIENCE = 120  # seconds for one operator
WAYS = ("call", "compiled", "out", "inplace", "backward")


class Made:
    """A call that can be repeated, and the tensors whose storages are resized.

    Attributes:
        run: makes the call.
        tensors: what it reads or writes.
    """

    def __init__(self, run, tensors):
        self.run, self.tensors = run, tensors


def made_call(function, args, kwargs, wants_grad=False):
    """The call of a function, its operands, and the arguments themselves."""
    build = Build(Variant("as it is"))
    args, kwargs = build(args), build(kwargs)
    for tensor in build.tensors.values():
        tensor.requires_grad_(wants_grad and tensor.requires_grad)
    return Made(lambda: function(*args, **kwargs), [*build.tensors.values()]), args


def leaves(result):
    """The tensors of a result."""
    if isinstance(result, rl.Tensor):
        return [result]
    if isinstance(result, (list, tuple)):
        return [leaf for item in result for leaf in leaves(item)]
    return []


def bits(result):
    """All that can be seen of a result's elements."""
    found = []
    for leaf in leaves(result):
        dense = leaf.detach().to_dense() if leaf.layout is not rl.strided else leaf
        dense = dense.detach().resolve_conj().resolve_neg()
        dense = dense.clone(memory_format=rl.contiguous_format)
        found.append((tuple(leaf.shape), leaf.dtype, dense.untyped_storage().bytes()))
    return found or repr(result)


def answered(made):
    """What a call gives, from one state of the generator of random numbers."""
    rl.manual_seed(0)
    return bits(made.run())


def span_of(tensor):
    """Bytes of a storage up to the last element that a tensor shows."""
    steps = zip(tensor.shape, tensor.stride())
    last = tensor.storage_offset() + sum((n - 1) * step for n, step in steps)
    return (last + 1) * tensor.element_size()


def calls_of(function, args, kwargs, way, name):
    """The call as it is made in one way; None where there is no such way."""
    if way == "call":
        return made_call(function, args, kwargs)[0]
    if way == "compiled":
        return made_call(rl.compile(function), args, kwargs)[0]
    if way == "backward":
        return backward_call(function, args, kwargs)
    if way == "inplace":
        method = getattr(rl.Tensor, f"{name}_", None)
        return method and written_call(method, args, kwargs)
    return out_call(function, args, kwargs)


def written_call(method, args, kwargs):
    """The in-place form; what is written is put back before each call."""
    made, args = made_call(method, args, kwargs)
    target = args[0]
    kept = target.clone()
    run = made.run

    def again():
        target.copy_(kept)
        return run()

    return Made(again, made.tensors)


def out_call(function, args, kwargs):
    """The form with ``out=``."""
    made, args = made_call(function, args, kwargs)
    result = made.run()
    if not isinstance(result, rl.Tensor) or result._base is not None:
        return None
    out = rl.zeros_like(result)
    build = Build(Variant("as it is"))
    kwargs = build(kwargs)
    return Made(lambda: function(*args, **kwargs, out=out), [out, *made.tensors])


def backward_call(function, args, kwargs):
    """The gradients of one recorded call."""
    made, _ = made_call(function, args, kwargs, True)
    inputs = [tensor for tensor in made.tensors if tensor.requires_grad]
    rl.manual_seed(0)
    results = [leaf for leaf in leaves(made.run()) if leaf.requires_grad]
    if not inputs or not results:
        return None
    ones = [rl.ones_like(leaf) for leaf in results]

    def gradients():
        return rl.autograd.grad(
            results, inputs, ones, retain_graph=True, allow_unused=True
        )

    return Made(gradients, made.tensors)


def resized(made, expected, storage, n_bytes, name):
    """What a call says once a storage has so many bytes; None where that is right."""
    contents = storage.clone()
    storage.resize_(n_bytes)
    try:
        found = answered(made)
    except Exception:
        found = None
    storage.resize_(contents.nbytes())
    storage.copy_(contents)
    if found is not None and found != expected and not UNWRITTEN.match(name):
        return "elements outside of the storage"
    # a program that was left is followed again from the next call on: its kernels round
    # in another place than single operators do
    if UNWRITTEN.match(name) or expected in (answered(made), answered(made)):
        return None
    return "the storage resized back"


def judge(name, function, args, kwargs, way):
    """What is wrong with one call in one way: lines."""
    try:
        made = calls_of(function, args, kwargs, way, name)
        if not made:
            return []
        for _ in range(WARM):
            expected = answered(made)
        if answered(made) != expected:
            return []
    except Exception:  # no such form, or none for such operands
        return []
    wrong = []
    for number, tensor in enumerate(made.tensors):
        storage = tensor.untyped_storage()
        if tensor.numel() == 0 or not storage.resizable():
            continue
        for n_bytes in (0, span_of(tensor) - tensor.element_size()):
            os.write(2, f"{way}, tensor {number}, {n_bytes} bytes\n".encode())
            told = resized(made, expected, storage, n_bytes, name)
            if told:
                wrong.append(f"{name}: {way}, tensor {number}, {n_bytes} bytes: {told}")
    return wrong


def apart(function):
    """Lines that a function gives in a process of its own, and its last note.

    Returns:
        The lines, and None or how the process ended.
    """
    reader, writer = os.pipe()
    notes = os.memfd_create("notes")
    child = os.fork()
    if not child:
        os.close(reader)
        os.dup2(notes, 2)
        faulthandler.disable()
        signal.alarm(PATIENCE)
        try:
            with warnings.catch_warnings(), os.fdopen(writer, "w") as told:
                warnings.simplefilter("ignore")
                told.write("\n".join(function()))
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as told:
        lines = told.read().splitlines()
    _, status = os.waitpid(child, 0)
    ended = None
    if status:  # by a signal; a sanitizer whose own handler fails exits instead
        last = os.pread(notes, 1 << 20, 0).decode(errors="replace").splitlines()
        how = os.waitstatus_to_exitcode(status)
        how = signal.Signals(-how).name if how < 0 else f"exit status {how}"
        ended = f"{how} at {last[-1:]}"
    os.close(notes)
    return lines, ended


def sweep(only=".*", ways=WAYS, dtypes=("float32",), each=1):
    """For each operator its name and what is wrong with its calls."""
    for index, (info, has_function) in enumerate(draw.operators()):
        kind = "function" if has_function else "method"
        if not re.search(only, info.name):
            continue
        rows = [
            (args, kwargs)
            for dtype in dtypes
            for args, kwargs in draw.samples(index, dtype)[:each]
        ]
        function = lookup((kind, info.name))
        if function is None or not rows:
            continue

        def judged(name=info.name, function=function, rows=rows):
            return [
                line
                for args, kwargs in rows
                for way in ways
                for line in judge(name, function, list(args), kwargs, way)
            ]

        lines, ended = apart(judged)
        yield info.name, lines + ([f"{info.name}: {ended}"] if ended else [])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=".*", help="operators whose names match")
    parser.add_argument("--ways", default=",".join(WAYS), help="of making calls")
    parser.add_argument("--each", type=int, default=3, help="samples of an operator")
    parser.add_argument("-v", action="store_true", help="print every operator")
    given = parser.parse_args()
    swept = failed = 0
    dtypes = ("float32", "int64", "complex64")
    with contextlib.suppress(BrokenPipeError):
        for name, lines in sweep(given.only, given.ways.split(","), dtypes, given.each):
            swept += 1
            failed += bool(lines)
            if given.v or lines:
                print(name, *lines, sep="\n  ", flush=True)
        print(f"{swept} operators, {failed} with faults")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
