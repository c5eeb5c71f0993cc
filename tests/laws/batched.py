"""Operators under ``vmap``, against themselves on one example after the other.

python -m tests.laws.batched [REGEX]
"""

from __future__ import annotations

import argparse
import functools
import re
import warnings

import numpy as np
import torch

import rushlight as rl
from rushlight.utils import _pytree as pytree
from tests.operators.oracle import to_rushlight

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_methods_invocations import op_db

EXAMPLES = 3
WHICH = ("all", "first", "others")


def infos(only=""):
    """The database's functions of float32, with the function of ours."""
    for info in op_db:
        if info.variant_test_name or torch.float32 not in info.dtypes:
            continue
        if re.search(only, info.name):
            function = find(info.name)
            if function is not None:
                yield info, function


def find(name):
    target = rl
    for part in name.split("."):
        target = getattr(target, part, None)
    return target if callable(target) else getattr(rl.Tensor, name, None)


def samples(info, most):
    """The first samples with few numbers, as ``(arguments, keywords)`` of ours."""
    torch.manual_seed(5)
    found = []
    for sample in info.sample_inputs("cpu", torch.float32):
        leaves = pytree.tree_leaves((sample.input, sample.args, sample.kwargs))
        dense = [t for t in leaves if isinstance(t, torch.Tensor)]
        if any(t.layout != torch.strided or t.numel() > 4000 for t in dense):
            continue
        if dense:
            found.append(to_rushlight(((sample.input, *sample.args), sample.kwargs)))
        if len(found) == most:
            break
    return found


class Call:
    """A sample as a function of some of its tensors, with examples of them.

    Attributes:
        given: the examples of each tensor that is batched, along the first dimension.
    """

    def __init__(self, function, sample, which):
        self.function = function
        self.leaves, self.spec = pytree.tree_flatten(sample)
        at = [i for i, leaf in enumerate(self.leaves) if isinstance(leaf, rl.Tensor)]
        self.at = {"all": at, "first": at[:1], "others": at[1:]}[which]
        self.given = [self.examples(self.leaves[i].detach()) for i in self.at]

    def examples(self, leaf):
        """As it is, and with other numbers where any will do."""
        if not leaf.is_floating_point():
            return rl.stack([leaf] * EXAMPLES)
        return rl.stack([leaf * (1 + 0.125 * i) for i in range(EXAMPLES)])

    def __call__(self, *tensors):
        leaves = list(self.leaves)
        for i, tensor in zip(self.at, tensors):
            leaves[i] = tensor
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        found = pytree.tree_leaves(self.function(*args, **kwargs))
        return [t for t in found if isinstance(t, rl.Tensor)]

    def floating(self):
        return tuple(i for i, t in enumerate(self.given) if t.is_floating_point())

    def gradients(self):
        """The gradients of one number of all results; None where there are none."""
        at = self.floating()

        def total(*tensors):
            parts = [t for t in self(*tensors) if t.is_floating_point()]
            return sum((t.cos().sum() for t in parts), rl.zeros(()))

        return rl.func.grad(total, argnums=at) if at else None


def on_a_copy(written, x, *args, **kwargs):
    """What a method leaves that writes."""
    copy = x.clone()
    written(copy, *args, **kwargs)
    return copy


def one_by_one(f, given):
    """The results of all examples, stacked; None where one is refused."""
    try:
        rows = [f(*(t[i] for t in given)) for i in range(EXAMPLES)]
        return [rl.stack(parts) for parts in zip(*rows)]
    except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError):
        return None


def at_once(f, given, dim=0):
    """The results under ``vmap``, and the operators that ran example by example."""
    given = [t.movedim(0, dim if t.dim() > dim else 0) for t in given]
    dims = tuple(dim if t.dim() > dim else 0 for t in given)
    looped, always = set(), rl.is_warn_always_enabled()
    rl.set_warn_always(True)
    try:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            found = rl.vmap(f, in_dims=dims, randomness="error")(*given)
    finally:
        rl.set_warn_always(always)
    for one in told:
        looped |= set(re.findall(r"batching rule for aten::(\w+)", str(one.message)))
    return list(found), looped


def apart(found, wanted):
    """What differs between two lists of results; None where nothing does."""
    if len(found) != len(wanted):
        return f"{len(found)} results, not {len(wanted)}"
    for a, b in zip(found, wanted):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"{tuple(a.shape)} {a.dtype}, not {tuple(b.shape)} {b.dtype}"
        x, y = (t.detach().resolve_conj().resolve_neg().numpy() for t in (a, b))
        size = 1.0
        if x.dtype.kind in "fc":
            finite = np.abs(y[np.isfinite(y)])
            size = max(1.0, float(finite.max(initial=0)))
        if not np.allclose(x, y, 2e-3, 2e-4 * size, equal_nan=True):
            return f"{x.ravel()[:6]}, not {y.ravel()[:6]}"
    return None


def judged(info, function, most, batches=WHICH):
    """Faults of an operator under ``vmap``, and what ran example by example."""
    faults, looped = [], set()
    for number, sample in enumerate(samples(info, most)):
        for which in batches:
            call = Call(function, sample, which)
            if not call.given:
                continue
            kinds = [("value", call), ("gradient", call.gradients())]
            written = getattr(rl.Tensor, info.name + "_", None)
            if written is not None and which != "others":
                writes = Call(functools.partial(on_a_copy, written), sample, which)
                kinds.append(("written", writes))
            for kind, f in kinds:
                wanted = f and one_by_one(f, call.given)
                if not wanted:
                    continue
                for dim in (0, 1) if most > 1 else (0,):
                    where = f"sample {number}, {which} batched along {dim}, {kind}"
                    try:
                        found, names = at_once(f, call.given, dim)
                    except Exception as error:  # any refusal is a fault to tell
                        text = str(error).split("\n")[0]
                        faults.append(f"{where}: {type(error).__name__}: {text}")
                        continue
                    looped |= names
                    told = apart(found, wanted)
                    if told:
                        faults.append(f"{where}: {told}")
    return faults, looped


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("only", nargs="?", default="")
    parser.add_argument("--samples", type=int, default=4)
    options = parser.parse_args()
    rl.set_num_threads(1)
    loops: dict = {}
    for info, function in infos(options.only):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                faults, looped = judged(info, function, options.samples)
            except Exception as error:
                print(f"{info.name}: not judged: {type(error).__name__}: {error}")
                continue
        for fault in faults[:4]:
            print(f"{info.name}: {fault}", flush=True)
        for name in looped:
            loops.setdefault(name, []).append(info.name)
    for name, users in sorted(loops.items()):
        print(f"example by example: {name}, in {', '.join(users)}")


if __name__ == "__main__":
    main()
