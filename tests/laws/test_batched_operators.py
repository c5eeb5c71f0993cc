"""Under ``vmap`` an operator gives what it gives of one example after the other.

And it is given all examples at once, but for those in a list. `python -m tests.laws.batched`
takes more samples of each.
"""

import os

import pytest

import rushlight as rl

pytest.importorskip("torch", reason="the oracle is not installed")
pytest.importorskip("expecttest", reason="the oracle's samples need it")

from tests.laws import batched

# What has no answer to compare: it draws, its memory is not set, its results differ in
# their shapes, or it looks at numbers, which a batch does not have.
LEFT_OUT = set(
    """
    allclose argwhere as_strided as_strided_copy bernoulli bfloat16 chalf cov empty_like
    equal item masked_select multinomial narrow new_empty new_empty_strided nonzero normal
    rand_like randint_like randn_like resize_ resize_as_ tensor_split to_sparse unique
    unique_consecutive nn.functional.alpha_dropout nn.functional.dropout
    nn.functional.dropout2d nn.functional.dropout3d nn.functional.embedding
    nn.functional.embedding_bag nn.functional.fractional_max_pool2d
    nn.functional.fractional_max_pool3d nn.functional.gaussian_nll_loss
    nn.functional.multi_head_attention_forward nn.functional.rrelu
    nn.functional.scaled_dot_product_attention
    """.split()
)
LEFT_OUT.add(
    "addbmm"
)  # in place it gives a number the size of a matrix, but to a batch
# What runs example by example: PyTorch has no rule either, or only for its own parts of it.
LOOPED = set(
    """
    _histogramdd_bin_edges _histogramdd_from_bin_cts _histogramdd_from_bin_tensors
    _isin_sorted _pdist_backward _pdist_forward _unsafe_masked_index
    _unsafe_masked_index_put_accumulate as_strided_scatter hash_tensor histc histogram
    linalg_lstsq masked_scatter masked_scatter_ max_unpool2d max_unpool3d nonzero_static
    ormqr put put_ renorm renorm_ repeat_interleave
    """.split()
)
# Masks of an example's own as places, statistics that examples share, and places in one
# number.
LOOPED_AT_TIMES = set(
    """
    gather index index_add index_add_ index_copy index_copy_ index_fill index_fill_
    index_put index_put_ index_select native_batch_norm scatter_add
    """.split()
)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(c, id=c[0].name)
        for c in batched.infos()
        if c[0].name not in LEFT_OUT
    ],
)
def test_a_batch_gives_what_its_examples_give(case):
    which = batched.WHICH if os.environ.get("SWEEP") else batched.WHICH[:1]
    faults, looped = batched.judged(*case, most=1, batches=which)
    assert not faults
    assert looped <= LOOPED | LOOPED_AT_TIMES


IN_PLACE_VIEWS = {
    "unsqueeze_": (1,),
    "squeeze_": (),
    "transpose_": (0, 1),
    "swapaxes_": (0, 1),
    "t_": (),
}


@pytest.mark.parametrize("name", IN_PLACE_VIEWS)
def test_windows_of_examples_are_moved_in_place(name):
    given = IN_PLACE_VIEWS[name]
    x = rl.arange(12.0).reshape(2, 2, 3)[:, : 1 if name == "squeeze_" else 2]

    def moved(one):
        copy = one.clone()
        getattr(copy, name)(*given)
        return copy * 2

    wanted = rl.stack([moved(one) for one in x])
    assert rl.equal(rl.vmap(moved)(x), wanted)
    pulled = rl.func.grad(lambda x: (rl.vmap(moved)(x) * wanted).sum())(x)
    assert rl.equal(pulled, 4 * x)


@pytest.mark.filterwarnings("error")
def test_gradients_of_each_example_through_normalization_and_losses_come_at_once():
    nn = rl.nn
    rl.manual_seed(1)
    net = nn.Sequential(
        nn.Conv1d(2, 4, 3), nn.GroupNorm(2, 4), nn.GELU(), nn.LayerNorm(6), nn.Flatten(),
        nn.Linear(24, 3),
    )  # fmt: skip
    weights = dict(net.named_parameters())
    x, labels = rl.randn(5, 2, 8), rl.tensor([0, 2, 1, 1, 0])

    def loss(weights, x, label):
        found = rl.func.functional_call(net, weights, (x[None],))
        return nn.functional.cross_entropy(found, label[None])

    found = rl.vmap(rl.func.grad(loss), in_dims=(None, 0, 0))(weights, x, labels)
    for i in range(5):
        one = rl.func.grad(loss)(weights, x[i], labels[i])
        for name, wanted in one.items():
            assert rl.allclose(found[name][i], wanted, 1e-4, 1e-6), name


def test_statistics_of_one_channel_are_written_for_each_example():
    x, mean, var = rl.arange(9.0).reshape(3, 1, 3), rl.zeros(1, 3), rl.ones(1, 3)
    run = lambda x, m, v: rl.batch_norm(x, None, None, m, v, True, 0.5, 1e-5, False)  # noqa: E731
    rl.vmap(run, -1, -1)(x, mean, var)
    for i in range(3):
        m, v = rl.zeros(1), rl.ones(1)
        run(x[..., i], m, v)
        assert rl.allclose(mean[:, i], m) and rl.allclose(var[:, i], v)
