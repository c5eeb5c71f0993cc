"""What ``run_decompositions`` leaves, beside PyTorch's; its programs compute the same."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest", reason="the oracle's samples need it")

import rushlight as rl  # noqa: E402
from tests.export import sweep  # noqa: E402
from tests.export.steps import our_steps, their_steps  # noqa: E402

PART = (
    *("_softmax_backward_data", "baddbmm", "hstack", "matmul", "stack", "std"),
    *("std_mean", "nn.functional.cross_entropy", "nn.functional.hardsigmoid"),
    *("nn.functional.logsigmoid", "nn.functional.mse_loss", "nn.functional.nll_loss"),
    *("nn.functional.linear_cross_entropy", "nn.functional.silu", "vstack"),
)
CHOSEN = [
    (at, name)
    for at, name in sweep.names()
    if name in PART and sweep.case_of(at) is not None
]


@pytest.mark.parametrize(
    ("at", "name"), CHOSEN, ids=[f"{name} {at}" for at, name in CHOSEN]
)
def test_an_operator_is_taken_apart_into_pytorchs(at, name):
    case = sweep.case_of(at)
    theirs, ours = sweep.outcome(torch, case), sweep.outcome(rl, case)
    with sweep.quietly():
        expected = theirs.program.run_decompositions()
        found = ours.program.run_decompositions()
    assert set(our_steps(found.graph)) == set(their_steps(expected.graph))
    assert sweep.difference_of_results(case, found) is None


F = rl.nn.functional
LOGITS = rl.tensor([[0.5, -1.0, 2.0], [1.5, 0.0, -0.5]])
# Other calls: how they are reduced, what does not count, and numbers in the formula.
CALLS = {
    **{
        f"{loss} {how}": (lambda x, t, f=function, h=how: f(x, t, reduction=h), target)
        for loss, function, target in (
            ("mse_loss", F.mse_loss, LOGITS * 2),
            ("cross_entropy", F.cross_entropy, rl.tensor([2, -100])),
            ("nll_loss", F.nll_loss, rl.tensor([1, 0])),
        )
        for how in ("none", "mean", "sum")
    },
    "no class counts": (F.cross_entropy, rl.tensor([-100, -100])),
    "pixels": (
        lambda x, t: F.cross_entropy(x.reshape(1, 3, 2), t, reduction="none"),
        rl.tensor([[1, -100]]),
    ),
    "one example": (lambda x, t: F.nll_loss(x[0], t), rl.tensor(2)),
    "weights": (lambda x, t: F.nll_loss(x, t, weight=rl.ones(3) * 2), rl.tensor([1, 0])),
    "baddbmm": (
        lambda x, t: rl.baddbmm(t, x[None], x.T[None], beta=0.5, alpha=3),
        rl.ones(1, 2, 2),
    ),
    "baddbmm without its first": (
        lambda x, t: rl.baddbmm(t, x[None], x.T[None], beta=0),
        rl.full((1, 2, 2), float("nan")),
    ),
    "prelu": (lambda x, t: F.prelu(x, t), rl.tensor([0.25])),
    "dot of integers": (lambda x, t: t @ t, rl.tensor([1, 2, 3], dtype=rl.int32)),
    "stack behind": (lambda x, t: rl.stack([x, t], -1), LOGITS),
    "std of rows": (lambda x, t: rl.std(x, 1, keepdim=True), LOGITS),
    "silu of halves": (lambda x, t: F.silu(t), LOGITS.half()),
    "nan": (lambda x, t: (F.hardsigmoid(t), F.logsigmoid(t), F.prelu(t, t[:1])),
            rl.tensor([float("nan"), 1.0, -200.0, 200.0])),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_what_is_taken_apart_computes_the_same(name):
    function, target = CALLS[name]

    class Program(rl.nn.Module):
        def forward(self, x, t):
            return function(x, t)

    with sweep.quietly():
        program = rl.export.export(Program(), (LOGITS, target)).run_decompositions()
    expected = Program()(LOGITS, target)
    found = program.module()(LOGITS, target)
    assert sweep.near(sweep.as_lists(found), sweep.as_lists(expected))
    for one, other in zip(
        found if isinstance(found, tuple) else [found],
        expected if isinstance(expected, tuple) else [expected],
    ):
        assert one.dtype is other.dtype and one.shape == other.shape


VIEWS_OR_COPIES = (
    "x.to(lib.bfloat16)", "x.double()", "x.t().contiguous()", "x.reshape(4, 3).flatten()",
    "x.chunk(2)[0]", "x.expand_as(x).movedim(0, 1)", "x @ x.t()", "x.type_as(x) + 1",
)  # fmt: skip


@pytest.mark.filterwarnings("ignore:.isinstance.treespec:FutureWarning")
@pytest.mark.parametrize("text", VIEWS_OR_COPIES)
def test_what_may_be_a_view_is_taken_apart_by_an_empty_table(text):
    found = []
    for lib in (rl, torch):

        class Program(lib.nn.Module):
            def forward(self, x):
                return eval(text, {"lib": lib, "x": x})  # noqa: B023

        program = lib.export.export(Program(), (lib.ones(3, 4),)).run_decompositions({})
        steps = [one for one in program.graph.nodes if one.op == "call_function"]
        found.append([
            name for one in steps if "_assert_tensor" not in (name := str(one.target))
        ])  # fmt: skip
    assert found[0] == found[1] or "type_as" in text
    assert not any("to.dtype" in one or "contiguous" in one for one in found[0])


@pytest.mark.parametrize("pad", [(1, 1), (2, 0), (-1, 2), (0, 2, 1, 0), (1, 2, -1, 1)])
def test_circular_borders_are_taken_apart_without_writes(pad):
    class Padded(rl.nn.Module):
        def forward(self, x):
            return rl.nn.functional.pad(x, pad, mode="circular") * 2

    x = rl.randn(2, 3, 4, 5) if len(pad) == 4 else rl.randn(2, 3, 5)
    program = rl.export.export(Padded(), (x,)).run_decompositions()
    assert rl.equal(program.module()(x), Padded()(x))
    targets = [str(node.target) for node in program.graph.nodes]
    assert not any("copy_" in one for one in targets)
    assert targets.count("aten.slice_scatter.default") >= len(pad) // 2
