"""What a function may not do inside of a transformation: the oracle refuses it, too."""

import contextlib
import warnings
from pathlib import Path

import pytest

import rushlight as rl
from tests.laws import batched
from tests.operators.oracle import torch

PROGRAMS = Path(__file__).with_name("refusals.txt").read_text().splitlines()


def refusal(m, program):
    """The kind of error that a program ends with, and its first words."""
    names = {
        "M": m,
        "F": m.nn.functional,
        "func": m.func,
        "vmap": m.func.vmap,
        "grad": m.func.grad,
        "one": lambda *sizes: m.ones(*sizes),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            eval(program, names)
        except Exception as error:
            words = str(error).replace("rushlight", "torch")
            return type(error).__name__, " ".join(words.split())[:60]
    return None


@pytest.mark.parametrize("program", PROGRAMS)
def test_what_transformations_refuse_is_refused_in_the_oracles_words(program):
    expected = refusal(torch, program)
    assert expected is not None
    assert refusal(rl, program) == expected


@pytest.mark.filterwarnings("ignore")
def test_an_output_of_the_caller_does_not_hold_a_batch_of_results():
    taken, tried = [], 0
    for info, function in batched.infos():
        if not info.supports_out:
            continue
        for args, options in batched.samples(info, 1):
            out = None
            rest = [rl.stack([t, t]) for t in args[:1] if isinstance(t, rl.Tensor)]
            with contextlib.suppress(RuntimeError):
                out = function(*args, **options)
            if not rest or not isinstance(out, rl.Tensor):
                continue
            out, tried = out.detach().clone(), tried + 1
            try:
                rl.vmap(lambda t: function(t, *args[1:], **options, out=out))(*rest)  # noqa: B023
            except RuntimeError:
                continue
            taken.append(info.name)
    assert tried > 200
    assert not taken


def test_what_a_function_makes_itself_may_be_written():
    x = rl.ones(3)

    def f(x):
        made = rl.tensor([1.0, 2.0, 3.0])
        made.mul_(x)
        return made.sum()

    assert rl.func.grad(f)(x).tolist() == [1.0, 2.0, 3.0]
    assert rl.func.jvp(f, (x,), (x,))[1].item() == 6.0
    norm = lambda x: (rl.nn.BatchNorm1d(3)(x) * x).sum()  # noqa: E731, statistics of its own
    assert rl.func.grad(norm)(rl.eye(3)).shape == (3, 3)


def test_out_writes_what_was_captured_where_nothing_is_recorded():
    kept = rl.ones(3)

    def f(x):
        rl.add(kept, kept, out=kept)
        with rl.no_grad():
            rl.mul(x, 2, out=kept)
        return x.sum()

    assert rl.func.grad(f)(rl.ones(3)).tolist() == [1.0, 1.0, 1.0]
