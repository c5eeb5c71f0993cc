"""What a row gives has the same bits alone, among few rows and among many."""

import pytest

import rushlight as rl
from rushlight.nn import functional as F

OF_ROWS = {
    "sum": lambda x: x.sum(-1),
    "mean": lambda x: x.mean(-1),
    "norm": lambda x: x.norm(dim=-1),
    "var": lambda x: x.var(-1),
    "logsumexp": lambda x: x.logsumexp(-1),
    "prod": lambda x: x.prod(-1),
    "amax": lambda x: x.amax(-1),
    "argmax": lambda x: x.argmax(-1),
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: x.log_softmax(-1),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "rms_norm": lambda x: F.rms_norm(x, x.shape[-1:]),
    "normalize": lambda x: F.normalize(x, dim=-1),
    "cumsum": lambda x: x.cumsum(-1),
    "cross_entropy": lambda x: F.cross_entropy(
        x, rl.zeros(len(x), dtype=rl.int64), reduction="none"
    ),
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("name", OF_ROWS)
def test_a_rows_result_does_not_hang_on_how_many_rows_there_are(name, dtype):
    function = OF_ROWS[name]
    for length in (2, 3, 5, 8, 10, 15, 16, 17, 24, 31, 32, 33, 40, 65):
        rows = rl.randn(70, length, generator=rl.Generator().manual_seed(length))
        rows = rows.to(getattr(rl, dtype))
        expected = function(rows)
        for count in (1, 2, 3, 4, 5, 17):
            found = function(rows[:count].clone())
            assert rl.equal(found, expected[:count]), (length, count)
