"""The oracle's own samples of every operator that is there: values and gradients."""

import warnings

import pytest

import rushlight as rl

torch = pytest.importorskip("torch", reason="the oracle is not installed")
pytest.importorskip("expecttest", reason="the oracle's samples need it")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_methods_invocations import op_db

from tests.operators.oracle import (  # noqa: E402
    assert_agrees,
    assert_gradients_agree,
    gradients,
    tensors_in,
    to_rushlight,
)

EACH = 3  # samples of an operator, spread over all that the oracle has
CHOSEN = 200  # of which are looked at
UNDEFINED = "undefined contents"
RANDOM = "random: held to the oracle elsewhere"
PHASES = "signs and phases of vectors are free: held to laws in test_lapack"
SPARSE = "samples of another layout: held to the oracle in tests/sparse"
ANOTHER_WAY = "the oracle's samples call it another way"
# Operators whose samples say nothing here, and why.
LEFT_OUT = {
    "as_strided_scatter": "the oracle's gradient ignores what was overwritten",
    "matrix_exp": "elements of large exponentials cancel in float32",
    "index_reduce": "gradients of products with zeros",
    "bfloat16": "NumPy has no such type",
    "chalf": "NumPy has no such type",
    "to_sparse": SPARSE,
    "sparse.mm": SPARSE,
    "sparse.sampled_addmm": SPARSE,
    "zero_": "in place on a leaf",
    "nn.functional.ctc_loss": "the oracle adds in float32: held to more in test_ctc",
    "logcumsumexp": "both gradients cancel in float32",
} | dict.fromkeys(
    ("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty",
     "new_empty_strided", "resize_", "resize_as_"), UNDEFINED,
) | dict.fromkeys(
    ("normal", "randn", "randn_like", "rand_like", "randint", "randint_like",
     "multinomial", "bernoulli", "nn.functional.rrelu", "nn.functional.dropout2d",
     "nn.functional.dropout3d", "nn.functional.feature_alpha_dropout",
     "nn.functional.fractional_max_pool3d",
     "nn.functional.scaled_dot_product_attention",
     "nn.functional.multi_head_attention_forward"), RANDOM,
) | dict.fromkeys(
    ("svd", "svd_lowrank", "pca_lowrank", "linalg.svd", "linalg.eig", "linalg.eigh"),
    PHASES,
) | dict.fromkeys(
    ("einsum", "where", "polygamma", "special.polygamma", "nn.functional.embedding",
     "T", "H", "mT", "mH", "max_pool2d_with_indices_backward",
     "nn.functional.triplet_margin_with_distance_loss"), ANOTHER_WAY,
)  # fmt: skip


def find(name):
    """Rushlight's function, or method for what has no function."""
    target = rl
    for part in name.split("."):
        target = getattr(target, part, None)
        if target is None:
            break
    if not callable(target) and "." not in name:
        target = getattr(rl.Tensor, name, None)
    return target


def operators():
    """Pairs of a sample source and Rushlight's function, one a name."""
    seen = set()
    for info in op_db:
        if info.name in seen or torch.float32 not in info.dtypes:
            continue
        function = find(info.name)
        if function is None or info.name in LEFT_OUT:
            continue
        seen.add(info.name)
        yield pytest.param(info, function, id=info.name)


def samples(info):
    """A few of the oracle's samples, the same in every run."""
    torch.manual_seed(0)
    found = []
    for sample in info.sample_inputs("cpu", torch.float32, info.supports_autograd):
        found.append(sample)
        if len(found) == CHOSEN:
            break
    return found[:: max(1, len(found) // EACH)][:EACH]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("info", "function"), list(operators()))
def test_samples_agree_with_the_oracle(info, function):
    for sample in samples(info):
        carried = {}
        args = (sample.input, *sample.args)
        mine = to_rushlight(args, carried)
        options = to_rushlight(sample.kwargs, carried)
        state = torch.get_rng_state()
        expected = info.op(*args, **sample.kwargs)
        if not torch.equal(state, torch.get_rng_state()):
            pytest.skip(RANDOM)
        result = function(*mine, **options)
        assert_agrees(result, expected)
        if any(t.requires_grad for t in tensors_in(expected)):
            assert_gradients_agree(
                gradients(rl, result, (mine, options)),
                gradients(torch, expected, (args, sample.kwargs)),
            )
