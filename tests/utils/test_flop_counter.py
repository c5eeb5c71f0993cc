"""Multiplications and additions are counted as PyTorch counts them."""

import pytest

import rushlight as rl
from rushlight.dispatch.library import _scoped_library
from rushlight.utils.flop_counter import FlopCounterMode, register_flop_formula

torch = pytest.importorskip("torch", reason="the oracle is not installed")


def network(library):
    nn = library.nn
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), nn.ConvTranspose2d(8, 4, 3),
        nn.Sequential(nn.Conv2d(4, 4, 3, groups=2), nn.Flatten()), nn.Linear(36, 5),
    )  # fmt: skip


PROGRAMS = {
    "forward": lambda t: network(t)(t.randn(2, 3, 8, 8)),
    "backward": lambda t: network(t)(t.randn(2, 3, 8, 8)).sum().backward(),
    "products": lambda t: [t.randn(3, 4) @ t.randn(4, 5), t.addmm(
        t.ones(2), t.ones(3, 4), t.ones(4, 2)), t.bmm(t.ones(2, 3, 4), t.ones(2, 4, 5))],
    "a batch": lambda t: t.nn.Linear(4, 3)(t.ones(2, 5, 4)),
    "no bias": lambda t: t.nn.Linear(4, 3, bias=False)(t.ones(2, 4)),
    "attention": lambda t: t.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)(
        t.ones(2, 6, 8)).sum().backward(),
    "recurrences": lambda t: [layer(t.ones(4, 2, 5))[0].sum().backward() for layer in (
        t.nn.RNN(5, 6), t.nn.GRU(5, 6, 2, bidirectional=True))],
    "sums of products": lambda t: t.einsum("bij,jk->bik", t.ones(2, 5, 4), t.ones(4, 3)),
    "nothing": lambda t: t.ones(3) + 1,
}  # fmt: skip


def counts(library, mode, program):
    with mode(display=False) as counter:
        program(library)
    return counter.get_total_flops(), {
        name: {str(op): count for op, count in found.items()}
        for name, found in counter.get_flop_counts().items()
    }


@pytest.mark.parametrize("case", PROGRAMS)
def test_counts_are_pytorchs_for_every_module(case):
    from torch.utils.flop_counter import FlopCounterMode as Theirs

    ours = counts(rl, FlopCounterMode, PROGRAMS[case])
    theirs = counts(torch, Theirs, PROGRAMS[case])
    assert ours[0] == theirs[0]
    assert {k: v for k, v in ours[1].items() if v} == {
        k: v for k, v in theirs[1].items() if v
    }


def test_formulas_of_ones_own_are_used():
    with FlopCounterMode(
        display=False, custom_mapping={rl.ops.aten.add: lambda *a, out_shape, **k: 7}
    ) as counter:
        rl.ones(2) + rl.ones(2)
    assert counter.get_total_flops() == 7
    with _scoped_library("counted", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CPU")
        register_flop_formula(rl.ops.counted.twice)(lambda x, out_shape: 2 * x[0])
        with FlopCounterMode(display=False) as counter:
            rl.ops.counted.twice(rl.ones(5))
    assert counter.get_total_flops() == 10


def test_the_table_has_modules_and_shares(capsys):
    with FlopCounterMode():
        network(rl)(rl.randn(2, 3, 8, 8))
    printed = capsys.readouterr().out
    assert "Global" in printed and "Sequential" in printed and "100.00%" in printed
