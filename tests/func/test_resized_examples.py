"""Examples of a batch that are made another size, and losses in chunks of a batch."""

import pytest

import rushlight as rl
from rushlight.nn.modules.linear_cross_entropy_options import LinearCrossEntropyOptions

torch = pytest.importorskip("torch")


def test_resized_examples_read_the_whole_memory_anew_as_pytorch_does():
    def results(lib):
        x = lib.arange(12.0).reshape(2, 6)
        yield lib.vmap(lambda row: row.resize_(2, 2))(x.clone())
        yield lib.vmap(lambda row: row.resize_(2).mul(2))(x.clone())
        yield lib.vmap(lambda row: row.resize_(3).shape and row.clone())(x.clone())

    for ours, theirs in zip(results(rl), results(torch), strict=True):
        assert ours.tolist() == theirs.tolist()
    for lib in (rl, torch):
        with pytest.raises(RuntimeError, match="Contiguous MemoryFormat"):
            form = {"memory_format": lib.channels_last}
            lib.vmap(lib.Tensor.resize_, (0, None))(
                lib.ones(2, 3), (1, 1, 1, 1), **form
            )


def test_a_loss_in_chunks_under_vmap_is_that_of_each_example():
    x, w = rl.randn(3, 4, 5), rl.randn(6, 5)
    target = rl.randint(0, 6, (3, 4))
    options = LinearCrossEntropyOptions(batch_chunk_size=2)

    def loss(x, target):
        return rl.nn.functional.linear_cross_entropy(x, w, target, options=options)

    got = rl.vmap(loss)(x, target)
    assert rl.allclose(got, rl.stack([loss(*one) for one in zip(x, target)]))


def test_exponentials_of_matrices_are_as_exact_as_pytorchs():
    for scale in (0.02, 0.3, 1.0, 4.0, 12.0):
        a = torch.randn(30, 5, 5, generator=torch.Generator().manual_seed(0)) * scale
        exact = torch.linalg.matrix_exp(a.double())
        size = exact.abs().amax((1, 2))
        ours = torch.from_numpy(rl.linalg.matrix_exp(rl.from_numpy(a.numpy())).numpy())
        theirs = torch.linalg.matrix_exp(a)
        mine, other = (
            ((one - exact).abs().amax((1, 2)) / size).mean() for one in (ours, theirs)
        )
        assert mine <= 1.5 * other
        one = rl.linalg.matrix_exp(rl.from_numpy(a[0].numpy())).numpy()
        assert abs(torch.from_numpy(one) - exact[0]).max() / size[0] <= 1e-5


def test_numbers_between_ends_without_memory_have_none():
    for dtype in (None, "float64", "complex64"):
        kind = None if dtype is None else getattr(rl, dtype)
        start, end = rl.empty((), device="meta"), rl.tensor(1.0, device="meta")
        for made in (
            rl.linspace(start, end, 5, dtype=kind),
            rl.linspace(start, 2.0, 5, dtype=kind),
            rl.logspace(0.0, end, 5, dtype=kind),
        ):
            assert made.is_meta and made.shape == (5,)
            assert made.dtype is (kind or rl.float32)
    x = rl.empty(3, 2, device="meta", requires_grad=True)
    slopes = rl.nn.functional.rrelu(x, training=True)
    assert slopes.is_meta and slopes.shape == (3, 2) and slopes.requires_grad
