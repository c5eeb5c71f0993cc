"""Random programs under random nests of transformations, on both libraries.

A program works on a few tensors: values, views of views, writes on any of them, blocks
without gradients, lists that change after they were passed. It is put under one to three
of grad, vjp, jvp, vmap, jacrev and jacfwd.

python -m tests.laws.nested_transforms --cases 10000 --seed 1
python -m tests.laws.nested_transforms --case 4711 --seed 1
"""

from __future__ import annotations

import argparse
import random
import warnings
from typing import NamedTuple

import numpy as np
import torch

import rushlight

VALUES = {
    "sin": lambda m, x, k: x.sin(),
    "square": lambda m, x, k: x * x,
    "power": lambda m, x, k: x ** (k + 1),
    "twice": lambda m, x, k: x * 2,
    "clone": lambda m, x, k: x.clone(),
    "zeros": lambda m, x, k: m.zeros_like(x),
    "positive": lambda m, x, k: (x > 0.5).to(x.dtype),
    "cumsum": lambda m, x, k: x.cumsum(0),
    "flip": lambda m, x, k: x.reshape(-1).flip(0),
    "softmax": lambda m, x, k: x.softmax(-1),
    "detach": lambda m, x, k: x.detach() * x,
    "sort": lambda m, x, k: x.sort(-1).values,
    "matmul": lambda m, x, k: x @ x.mT,
    "transposed clone": lambda m, x, k: x.mT.clone(),
    "contiguous": lambda m, x, k: x.mT.contiguous(),
    "mean": lambda m, x, k: x.mean(0, keepdim=True) + x,
    "where": lambda m, x, k: m.where(x > 0.7, x, x * x),
    "index": lambda m, x, k: x[[0, -1]],
}
VIEWS = {
    "transpose": lambda m, x, k: x.mT,
    "select": lambda m, x, k: x[k % max(x.shape[0], 1)],
    "last": lambda m, x, k: x[..., -1],
    "slice": lambda m, x, k: x[k % 2 :],
    "step": lambda m, x, k: x[..., ::2],
    "unsqueeze": lambda m, x, k: x.unsqueeze(k % 2),
    "flatten": lambda m, x, k: x.reshape(-1),
    "view": lambda m, x, k: x.view(-1),
    "expand": lambda m, x, k: x.unsqueeze(0).expand(2, *x.shape),
    "diagonal": lambda m, x, k: x.diagonal(),
    "unbind": lambda m, x, k: x.unbind(0)[-1],
    "chunk": lambda m, x, k: x.chunk(2)[0],
    "narrow": lambda m, x, k: x.narrow(-1, 0, 1),
}
WRITES = {
    "mul_": lambda m, x, y, k: x.mul_(2),
    "mul_ other": lambda m, x, y, k: x.mul_(y.cos()),
    "add_": lambda m, x, y, k: x.add_(y),
    "sin_": lambda m, x, y, k: x.sin_(),
    "zero_": lambda m, x, y, k: x.zero_(),
    "fill_": lambda m, x, y, k: x.fill_(0.5),
    "copy_": lambda m, x, y, k: x.copy_(y),
    "first =": lambda m, x, y, k: x.__setitem__(0, y[-1] * 1),
    "last =": lambda m, x, y, k: x.__setitem__((..., -1), y[..., 0] * 2),
    "slice =": lambda m, x, y, k: x.__setitem__(slice(1, None), y[:-1] * 1),
    "row +=": lambda m, x, y, k: x[0].add_(y[-1] * 1),
    "column *=": lambda m, x, y, k: x.mT[-1].mul_(y.mT[0].cos()),
}


def rolled(m, x, y, k):
    """Lists of numbers and of tensors as arguments."""
    parts = [m.roll(x, [step], [0]) * (step + 1) for step in range(3)]
    return m.stack(parts).sum(0)


def summed(m, x, y, k):
    return x.sum([0], keepdim=True) * y


LISTS = {"rolled": rolled, "summed": summed}
MODES = {
    "no_grad": lambda m: m.no_grad(),
    "set_grad_enabled": lambda m: m.set_grad_enabled(False),
    "enable_grad": lambda m: m.enable_grad(),
}


class Refusal(NamedTuple):
    """The exception that a library ends with."""

    kind: str
    text: str


# What PyTorch refuses under transformations alone.
PYTORCHS_OWN = (
    ("ZeroTensors are immutable", "a tangent that is zero may not be written to"),
    ("modified by an inplace", "what jvp of a write saves is written at once"),
    ("a leaf Variable that", "a view from before its base was written has no history"),
)


class Case(NamedTuple):
    """What is done, under what, with which numbers."""

    steps: list
    nest: list
    values: np.ndarray


TRANSFORMS = ("grad", "vjp", "jvp", "vmap", "jacrev", "jacfwd")


def draw(seed, number):
    """The case of a number."""
    choose = random.Random(f"{seed} {number}")
    steps = []
    for _ in range(choose.randint(2, 7)):
        table = choose.choice((VALUES, VIEWS, VIEWS, WRITES, WRITES, LISTS))
        name = choose.choice(list(table))
        mode = choose.choice(list(MODES)) if choose.random() < 0.2 else None
        places = choose.randrange(8), choose.randrange(8)
        steps.append((table, name, mode, places, choose.randrange(4)))
    nest = [choose.choice(TRANSFORMS) for _ in range(choose.choice((1, 1, 2, 2, 3)))]
    nest = [(kind, choose.randrange(4)) for kind in nest]
    shape = choose.choice(((2, 3), (3, 2), (2, 2), (3,)))
    values = np.random.default_rng([seed, number]).uniform(0.2, 1.4, shape)
    return Case(steps, nest, values)


def program(m, steps, apart=False):
    """The steps as a function of one tensor.

    Args:
        apart: writes read a copy of their operand.
    """

    def run(u):
        tensors = [u * 1, u * u]
        for table, name, mode, (first, second), count in steps:
            x, y = tensors[first % len(tensors)], tensors[second % len(tensors)]
            if apart and table is WRITES:
                y = y.clone()
            given = (m, x, count) if table in (VALUES, VIEWS) else (m, x, y, count)
            if mode is None:
                made = table[name](*given)
            else:
                with MODES[mode](m):
                    made = table[name](*given)
            if table is not WRITES:
                tensors.append(made)
        total = sum((t * (i + 1)).sin().mean() for i, t in enumerate(tensors))
        return (tensors[0] + tensors[1]) * total.sin() + total

    return run


def under(m, kind, variant, f):
    """``f`` under a transformation; again from one tensor to one tensor."""
    func = m.func

    def number(x):
        return f(x).sin().sum()

    if kind == "grad":
        return func.grad(number)
    if kind == "vjp":
        return lambda x: pulled(func.vjp(f, x))
    if kind == "jvp":
        return lambda x: func.jvp(f, (x,), (x.cos(),))[min(variant, 1)]
    if kind == "vmap":
        dim = variant % 2
        return lambda x: func.vmap(f, in_dims=dim, out_dims=variant // 2)(
            m.stack([x, x * 0.9], dim)
        )
    transform = func.jacrev if kind == "jacrev" else func.jacfwd
    if kind == "jacrev" and variant:
        return lambda x: reduced(func.jacrev(f, chunk_size=variant)(x))
    return lambda x: reduced(transform(f)(x))


def pulled(found):
    value, pull = found
    return pull(value.cos())[0]


def reduced(jacobian):
    """A Jacobian with few dimensions, as nests make it grow."""
    while jacobian.dim() > 2:
        jacobian = jacobian.sum(0)
    return jacobian


def answer(m, case, apart=False):
    """What a library gives: numbers, or the name of an exception."""
    steps, nest, values = case
    f = program(m, steps, apart)
    for kind, variant in nest:
        f = under(m, kind, variant, f)
    x = m.tensor(values.tolist(), dtype=m.float64)
    try:
        return f(x).detach().numpy()
    except (RuntimeError, IndexError, TypeError, ValueError) as error:
        return Refusal(type(error).__name__, str(error))
    finally:
        m.set_grad_enabled(True)


def alike(found, wanted, spread=0.0):
    """Whether both are refusals of a kind, or the same numbers.

    Args:
        spread: how far the numbers may lie apart, whatever their size.
    """
    refused = [part for part in (found, wanted) if isinstance(part, Refusal)]
    if refused:
        return len(refused) == 2 and refused[0].kind == refused[1].kind
    if found.shape != wanted.shape:
        return False
    size = np.abs(wanted).max(initial=1e-6)
    with np.errstate(invalid="ignore", over="ignore"):
        return np.allclose(found, wanted, 1e-7, 1e-9 * size + spread, equal_nan=True)


def described(case):
    steps, nest, values = case
    lines = [
        f"{name} of {first}, {second} ({count}) {mode or ''}".strip()
        for _, name, mode, (first, second), count in steps
    ]
    return "; ".join(lines), nest, values.tolist()


def difference(seed, number):
    """None, or what the libraries answer where they differ."""
    case = draw(seed, number)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of batches that run example by example
        wanted, found = answer(torch, case), answer(rushlight, case)
    if alike(found, wanted) or known(case, found, wanted):
        return None
    return described(case), found, wanted


def known(case, found, wanted):
    """Whether PyTorch's answer is none that could be given here."""
    plain = case._replace(nest=[])
    alone = answer(torch, plain)
    if isinstance(alone, Refusal):
        # how batches lie in memory says which writes are seen to overlap; of two
        # faults either may be told
        batches = {"vmap", "jacrev", "jacfwd"} & {kind for kind, _ in case.nest}
        return bool(batches) and alike(alone, found if alike(alone, found) else wanted)
    if isinstance(wanted, Refusal):
        return any(text in wanted.text for text, _ in PYTORCHS_OWN)
    if isinstance(found, Refusal):
        return False
    # what reads elements that it has written before has no answer to compare
    return moves(case, found, wanted) or not alike(alone, answer(torch, plain, True))


def moves(case, found, wanted):
    """Whether the last bit of the values moves PyTorch's answer as far as the difference."""
    moved = answer(torch, case._replace(values=case.values * (1 + 1e-15)))
    if isinstance(moved, Refusal) or moved.shape != found.shape:
        return False
    return alike(found, wanted, np.abs(moved - wanted).max(initial=0))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", type=int, help="one case again")
    options = parser.parse_args()
    numbers = range(options.first, options.first + options.cases)
    count = 0
    for number in numbers if options.case is None else [options.case]:
        told = difference(options.seed, number)
        if told is not None:
            count += 1
            print(number, *told, sep="\n  ", flush=True)
    print(f"{count} of {len(numbers)} differ")


if __name__ == "__main__":
    main()
