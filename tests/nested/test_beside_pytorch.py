"""Nested tensors compute what PyTorch's do: values, raggedness, gradients, errors."""

import numpy as np
import pytest

import rushlight as rl
from tests.nested import programs

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.fixture(scope="module")
def numbers():
    draw = np.random.default_rng(0)
    parts = [draw.standard_normal((n, 4)).astype("float32") for n in (2, 5, 3)]
    return {
        "parts": parts,
        "vector": draw.standard_normal(4).astype("float32"),
        "rows": draw.standard_normal((3, 1, 4)).astype("float32"),
        "weight": draw.standard_normal((5, 4)).astype("float32"),
        "bias": draw.standard_normal(5).astype("float32"),
        "matrices": draw.standard_normal((3, 4, 2)).astype("float32"),
    }


def plain(value):
    """Results as lists of parts, with the place of the ragged dimension."""
    if isinstance(value, (tuple, list)):
        return [plain(each) for each in value]
    if value.is_nested:
        at = getattr(value, "_ragged_idx", None)
        return [at, *(plain(each) for each in value.unbind())]
    return value.detach().to(getattr(torch, "float64", None)).numpy() if isinstance(
        value, torch.Tensor) else value.detach().to(rl.float64).numpy()  # fmt: skip


def check(one, two, name, atol=2e-6):
    assert type(one) is type(two), name
    if isinstance(one, list):
        assert len(one) == len(two), name
        for a, b in zip(one, two):
            check(a, b, name, atol)
    elif isinstance(one, np.ndarray):
        assert one.shape == two.shape, (name, one.shape, two.shape)
        np.testing.assert_allclose(one, two, rtol=1e-5, atol=atol, err_msg=name)
    else:
        assert one == two, name


def flat(value):
    if isinstance(value, (tuple, list)):
        return [each for one in value for each in flat(one)]
    return [value]


def losses(result):
    dense = [v.values() if v.is_nested else v for v in flat(result)]
    return [v.double().sin().sum() for v in dense if v.is_floating_point()]


def ran(t, layout, program, numbers, with_grad):
    """The result of a program and the gradient of its nested tensor."""
    nt, others = programs.operands(t, layout, numbers, with_grad)
    result = program(t, nt, others)
    if not with_grad:
        return plain(result), None
    loss = [each for each in losses(result) if each.requires_grad]
    if loss:
        sum(loss).backward()
    return plain(result), None if nt.grad is None else plain(nt.grad)


@pytest.mark.parametrize("layout", ["jagged", "strided"])
def test_programs_have_the_same_results_and_gradients(layout, numbers):
    for name, program in getattr(programs, layout.upper()).items():
        grads = name not in programs.UNRELIABLE_GRADIENTS
        ours, our_grad = ran(rl, layout, program, numbers, grads)
        theirs, their_grad = ran(torch, layout, program, numbers, grads)
        loose = 0.05 if name == "half" else 2e-6
        check(ours, theirs, name, loose)
        assert (our_grad is None) == (their_grad is None), name
        if our_grad is not None:
            check(our_grad, their_grad, f"gradient of {name}", loose)


def test_gradients_are_the_slopes_of_what_is_computed(numbers):
    wide = {k: v for k, v in numbers.items() if k != "parts"}
    wide = {k: v.astype("float64") for k, v in wide.items()}
    parts = [part.astype("float64") for part in numbers["parts"]]
    draw = np.random.default_rng(1)
    step = [draw.standard_normal(part.shape) for part in parts]

    def loss(program, layout, size):
        moved = [part + size * each for part, each in zip(parts, step)]
        nt, others = programs.operands(rl, layout, {**wide, "parts": moved})
        return nt, sum(losses(program(rl, nt, others)))

    for layout in ("jagged", "strided"):
        for name, program in getattr(programs, layout.upper()).items():
            if name in programs.FLAT:
                continue
            nt, middle = loss(program, layout, 0.0)
            middle.backward()
            pairs = zip(nt.grad.unbind(), step)
            along = sum((g * rl.tensor(each)).sum() for g, each in pairs)
            ends = [loss(program, layout, size)[1].item() for size in (1e-6, -1e-6)]
            slope = (ends[0] - ends[1]) / 2e-6
            assert abs(along.item() - slope) < 1e-5 * max(1, abs(slope)), (layout, name)


def test_wrong_calls_are_refused_in_the_same_words(numbers):
    for name, program in programs.WRONG.items():
        told = []
        for t in (rl, torch):
            nt, others = programs.operands(t, "jagged", numbers)
            with pytest.raises(Exception) as caught:
                program(t, nt, others)
            words = str(caught.value).splitlines()[0].replace("torch.", "")
            told.append((caught.type.__name__, words[:28]))
        assert told[0] == told[1], name


def test_sizes_are_shown_as_pytorch_shows_them(numbers):
    for t in (rl, torch):
        nt, _ = programs.operands(t, "jagged", numbers)
        j = nt.shape[1]
        assert isinstance(j, t.SymInt)
        assert j == nt.size(1)
        assert j != 5
        assert j >= 2
        assert str(3 * j) == f"3*{j}"
        assert nt.shape == (nt * 2).shape
        assert nt.size(1) != programs.operands(t, "jagged", numbers)[0].size(1)
        assert str(nt.stride()) == f"(4*{j}, 4, 1)"
        assert (nt.numel(), nt.dim(), nt.is_leaf, nt.is_contiguous()) == (
            40, 3, True, True)  # fmt: skip
        shown = repr(nt).replace("torch", "rushlight")
        assert shown == (
            f"NestedTensor(size=(3, {j}, 4), offsets=tensor([ 0,  2,  7, 10]), "
            "requires_grad=True, contiguous=True)"
        )
        assert nt.grad_fn is None
    with pytest.raises(RuntimeError, match="concrete int"):
        int(programs.operands(rl, "jagged", numbers)[0].shape[1])


def test_strided_tensors_are_shown_part_by_part(numbers):
    shown = [
        repr(programs.operands(t, "strided", numbers, requires_grad=False)[0])
        for t in (rl, torch)
    ]
    assert shown[0] == shown[1]
    for t in (rl, torch):
        nt = programs.operands(t, "strided", numbers)[0]
        assert (nt.size(0), nt.size(2), nt.dim(), nt.numel()) == (3, 4, 3, 40)
        with pytest.raises(RuntimeError, match="Given dimension 1 is irregular"):
            nt.size(1)


def test_gradients_reach_the_parts_and_dense_operands(numbers):
    for layout in ("jagged", "strided"):
        grads = []
        for t in (rl, torch):
            parts = [t.tensor(p, requires_grad=True) for p in numbers["parts"]]
            weight = t.tensor(numbers["weight"], requires_grad=True)
            layouts = {"jagged": t.jagged, "strided": t.strided}
            nt = t.nested.as_nested_tensor(parts, layout=layouts[layout])
            assert not nt.is_leaf
            out = t.nn.functional.linear(nt, weight)
            (out * out).values().sum().backward()
            grads.append([plain(p.grad) for p in (*parts, weight)])
        check(*grads, layout, 1e-4)
