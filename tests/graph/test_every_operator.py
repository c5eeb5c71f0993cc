"""A part of ``python -m tests.graph``: operators of the database, compiled."""

import pytest

pytest.importorskip("torch")

from tests.graph import sweep

PART = (
    *("add", "where", "clamp", "sum", "var_mean", "softmax", "sort", "topk", "cumsum"),
    *("cat", "stack", "split", "index_put", "gather", "scatter_add", "masked_fill"),
    *("nn.functional.batch_norm", "nn.functional.layer_norm", "nn.functional.gelu"),
    *("nn.functional.conv2d", "nn.functional.max_pool2d", "nn.functional.dropout"),
    *("nn.functional.cross_entropy", "nn.functional.embedding", "nn.functional.linear"),
    *("nn.functional.scaled_dot_product_attention", "matmul", "einsum", "linalg.inv"),
    *("bernoulli", "normal", "unique", "nonzero", "fft.rfft", "tril", "roll", "expand"),
)
CHOSEN = [(at, name) for at, name in sweep.names() if name in PART]


@pytest.mark.parametrize(("at", "name"), CHOSEN, ids=[name for _, name in CHOSEN])
def test_a_compiled_operator_does_what_it_does_uncompiled(at, name):
    for case in sweep.cases(at, dtypes=("float32", "int64"), most=2):
        for difference in sweep.differences(case):
            pytest.fail(f"{case}\n{difference}")
