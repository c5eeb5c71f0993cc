"""Parts of ``python -m tests.onnx``: the standard's node tests, PyTorch's operators."""

import functools

import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from tests.onnx import nodes

# A run through the groups of what is read; each stands for its cases of any version.
NODES = """
    abs add argmax averagepool batchnorm bitshift cast_FLOAT_to_FLOAT16 clip concat conv
    convtranspose cumsum depthtospace div dropout einsum expand flatten gather gelu gemm
    globalmaxpool gridsample group_normalization gru if instancenorm layer_normalization
    logsoftmax loop11 loop13_seq loop16_seq_none lstm matmul maxpool mean mod
    nllloss nonzero onehot pow quantizelinear
    reduce_l2 reduce_sum reshape resize scan scatter sequence slice softmax split squeeze
    tile top_k transpose tril unique where
""".split()


@functools.cache
def cases():
    found: dict = {}
    for case in nodes.cases():
        name = case.name.removeprefix("test_")
        for word in NODES:
            if name == word or name.startswith(f"{word}_"):
                found.setdefault(word, []).append(case)
    return found


# Types that are not here; and one bit more of half precision than the standard rounds to.
KNOWN = {"quantizelinear_e4m3fn", "quantizelinear_e5m2"}


@pytest.mark.parametrize("word", NODES)
def test_node_tests_of_the_standard_pass(word):
    outcomes = {
        one.name.removeprefix("test_"): nodes.outcome(one) for one in cases()[word]
    }
    wrong = {
        name: text
        for name, text in outcomes.items()
        if text not in ("passes", "no type", "random")
        and not text.startswith("lacks")
        and name not in KNOWN
    }
    assert not wrong
    assert "passes" in outcomes.values()


OPERATORS = """
    add addmm amax arange argmax atan2 baddbmm bmm cat chunk clamp cumsum cumprod diagonal
    div expand flip gather index_add index_put index_select linalg.vector_norm
    log_softmax logsumexp masked_fill matmul maximum median narrow nn.functional.avg_pool2d
    nn.functional.batch_norm nn.functional.bilinear nn.functional.conv2d
    nn.functional.conv_transpose2d nn.functional.cross_entropy
    nn.functional.gelu nn.functional.glu nn.functional.grid_sample
    nn.functional.interpolate nn.functional.layer_norm nn.functional.linear
    nn.functional.max_pool2d nn.functional.nll_loss nn.functional.pixel_shuffle
    nn.functional.scaled_dot_product_attention nn.functional.softplus nn.functional.unfold
    pow remainder repeat_interleave roll scatter scatter_add searchsorted select_scatter
    slice_scatter sort split stack std sum tile topk tril unbind unfold var_mean
    block_diag cdist linspace logspace
""".split()


@pytest.fixture(scope="module")
def numbers():
    pytest.importorskip("torch")
    pytest.importorskip("expecttest", reason="the oracle's samples need it")
    from tests.export import sweep

    return {
        name: [at for at, one in sweep.names() if one == name] for name in OPERATORS
    }


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_gives_its_numbers_in_onnx_runtime(name, numbers):
    from tests.onnx import sweep

    found = [
        one
        for at in numbers[name]
        for one in map(sweep.verdict, sweep.samples(at))
        if one is not None
    ]
    assert any(word == "agrees" for word, _ in found)
    assert not [one for one in found if one[0] == "differs"]
