"""Gradients that need no saved values can be taken twice, as in PyTorch."""

import warnings

import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402  (after what the fuzzer's tools need)
from tests.fuzz import draw, judge  # noqa: E402

# Pools of one window are means in PyTorch, and its sums under curves multiply by numbers
# that C++ does not make tensors of, as slopes do: what theirs do not save, ours do. Sparse
# results have no ones like them.
OTHERWISE = {
    "nn.functional.adaptive_avg_pool1d", "nn.functional.adaptive_avg_pool3d",
    "trapz", "trapezoid", "cumulative_trapezoid", "gradient", "to_sparse",
}  # fmt: skip
OPERATORS = [
    (index, info.name, "function" if public else "method")
    for index, (info, public) in enumerate(draw.operators())
    if info.name not in OTHERWISE
]


def sweeps(m, case):
    """How often gradients can be taken: 0 where there are none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        answer = judge.call(m, case)
        if answer.error is not None:
            return 0
        leaves = [leaf for _, leaf in judge.leaves(m, answer.result)]
        results = [t for t in leaves if isinstance(t, m.Tensor) and t.requires_grad]
        tensors = [t for t, spec in answer.side.tensors.values() if spec.grad]
        inputs = [t for t in tensors if t.is_leaf and t.requires_grad]
        if not results or not inputs:
            return 0
        ones = [m.ones_like(t) for t in results]
        for count in range(2):
            try:
                m.autograd.grad(results, inputs, ones, allow_unused=True)
            except RuntimeError:
                return count
    return 2


@pytest.mark.parametrize("index, name, kind", OPERATORS, ids=[o[1] for o in OPERATORS])
def test_what_saves_no_values_can_be_swept_twice(index, name, kind):
    if judge.lookup(rushlight, (kind, name)) is None:
        return
    for args, kwargs in draw.samples(index, "float32")[:4]:
        case = draw.Case((kind, name), args, kwargs, [])
        if sweeps(torch, case) == 2:
            assert sweeps(rushlight, case) in (0, 2), case
