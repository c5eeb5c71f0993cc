"""A result is a view of something only where PyTorch's is one."""

import itertools
import warnings

import pytest

import rushlight as rl

torch = pytest.importorskip("torch", reason="the oracle is not installed")
pytest.importorskip("expecttest", reason="the oracle's samples need it")

from tests.operators import test_oracle_samples as samples  # noqa: E402
from tests.operators.oracle import tensors_in, to_rushlight  # noqa: E402

EACH = 2  # samples of an operator, the first that the oracle has


def results(value, kind):
    """The tensors among a function's results."""
    if isinstance(value, kind):
        return [value]
    if isinstance(value, (tuple, list)):
        return [found for one in value for found in results(one, kind)]
    return []


def called(info, target, sample):
    """Both results; None where the sample is of another layout or refused."""
    operands = (sample.input, sample.args, sample.kwargs)
    if any(t.layout != torch.strided for t in tensors_in(operands)):
        return None
    first = to_rushlight(sample.input)
    rest = [to_rushlight(one) for one in sample.args]
    named = {name: to_rushlight(one) for name, one in sample.kwargs.items()}
    try:
        theirs = info.op(sample.input, *sample.args, **sample.kwargs)
        ours = target(first, *rest, **named)
    except (RuntimeError, TypeError, AttributeError, ValueError, AssertionError):
        return None  # held to the oracle elsewhere
    return results(theirs, torch.Tensor), results(ours, rl.Tensor)


@pytest.mark.parametrize("part", range(8))
def test_no_result_is_a_view_where_pytorch_makes_none(part):
    wrong, seen = set(), 0
    for info in samples.op_db[part::8]:
        target = samples.find(info.name)
        if torch.float32 not in info.dtypes or not callable(target):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            drawn = info.sample_inputs("cpu", torch.float32)
            for sample in itertools.islice(drawn, EACH):
                both = called(info, target, sample)
                if both is None or len(both[0]) != len(both[1]):
                    continue
                seen += 1
                for theirs, ours in zip(*both):
                    if ours._is_view() and not theirs._is_view():
                        wrong.add(info.name)
    assert seen > 70
    assert not wrong


def test_products_may_be_cut_off_from_their_graph_in_place():
    a = rl.randn(2, 3, 4, 4, requires_grad=True)
    product = a.matmul(a.mT)
    product.detach_()
    assert not product.requires_grad
    assert product._version == 0


def test_parts_that_are_unsafe_count_their_changes_apart():
    x = rl.arange(4.0)
    first, second = x.unsafe_chunk(2)
    first += 1
    assert (first._version, second._version, x._version) == (1, 0, 0)
    assert x.tolist() == [1, 2, 2, 3]


def test_a_product_changed_in_place_still_gives_the_gradient():
    a = rl.randn(2, 3, 3, 4, requires_grad=True)
    b = rl.randn(2, 3, 4, 5)
    (a @ b).add_(1).sum().backward()
    assert rl.allclose(a.grad, b.sum(-1)[:, :, None].expand_as(a))


def test_examples_of_a_batch_may_lie_in_any_order():
    a, b = rl.randn(2, 3, 4), rl.randn(3, 2, 4)
    found = rl.vmap(rl.kron, in_dims=(2, 2), out_dims=1)(a, b)
    for i in range(4):
        assert rl.equal(found[:, i], rl.kron(a[..., i], b[..., i]))
