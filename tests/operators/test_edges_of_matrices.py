"""Sizes, types and arguments at which formulas of matrices branch, beside PyTorch."""

import itertools
import re

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")


def seen(run):
    """What a call gives on both sides: arrays, or the kind of its error and how it begins."""
    found = []
    for t in (rl, torch):
        try:
            results = run(t)
            several = results if isinstance(results, tuple) else (results,)
            found.append([x.resolve_conj().detach().numpy() for x in several])
        except Exception as error:
            words = re.sub(r"-?\d+", "N", str(error).split("\n")[0])
            found.append((type(error).__name__.lstrip("_"), words[:40]))
    return found


def agree(run):
    ours, theirs = seen(run)
    if isinstance(theirs, tuple):
        assert ours == theirs
        return
    assert len(ours) == len(theirs)
    for one, two in zip(ours, theirs):
        assert (one.dtype, one.shape) == (two.dtype, two.shape)
        np.testing.assert_allclose(one, two, rtol=2e-4, atol=2e-5)


def numbers(t, *sizes, dtype="float32"):
    count = int(np.prod(sizes))
    values = np.cos(np.arange(count) ** 2 * 1.7).reshape(sizes)
    return t.tensor(values.astype(dtype))


@pytest.mark.parametrize("order", [1, -1, float("inf"), -float("inf"), 2, -2])
@pytest.mark.parametrize("sizes", [(0, 3), (3, 0), (0, 0)])
def test_norms_of_matrices_without_rows_or_columns(sizes, order):
    agree(lambda t: t.linalg.matrix_norm(t.ones(sizes), order))


@pytest.mark.parametrize("order", ["fro", "nuc", 1, -1, 2, -2, "other"])
def test_condition_numbers_of_matrices_that_are_not_square(order):
    agree(lambda t: t.linalg.cond(numbers(t, 2, 3), order))


@pytest.mark.parametrize("name", ["slogdet", "det", "inv", "svdvals", "eigvals", "qr"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int64"])
@pytest.mark.parametrize("size", [0, 2])
def test_types_that_decompositions_have_no_kernel_for(name, dtype, size):
    ours, theirs = seen(
        lambda t: getattr(t.linalg, name)(t.ones(size, size, dtype=getattr(t, dtype)))
    )
    if isinstance(theirs, tuple):
        assert isinstance(ours, tuple) and ours[0] == theirs[0]
    else:
        assert [x.shape for x in ours] == [x.shape for x in theirs]


@pytest.mark.parametrize("which", ["atol", "rtol"])
def test_tolerances_of_pseudo_inverses_are_real_tensors(which):
    agree(lambda t: t.linalg.pinv(numbers(t, 3, 2), **{which: t.tensor(0.5)}))
    agree(lambda t: t.linalg.pinv(numbers(t, 3, 2), **{which: t.tensor(0.5 + 0j)}))


@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd", "gelss"])
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((5, 3), (5, 2)), ((3, 5), (3, 2)), ((5, 3), (5,)), ((2, 5, 3), (2, 5)),
        ((1, 5, 3), (2, 5, 1)), ((2, 5, 3), (1, 5, 1)), ((2, 1, 5, 3), (1, 4, 5, 2)),
        ((2, 5, 3), (5, 2)), ((5, 5, 3), (5, 2)), ((0, 5, 3), (1, 5, 2)),
    ],
)  # fmt: skip
def test_all_four_answers_of_least_squares(a, b, driver):
    agree(
        lambda t: tuple(
            t.linalg.lstsq(numbers(t, *a), numbers(t, *b) + 1, driver=driver)
        )
    )


def test_the_gradient_of_a_pseudo_inverse_has_both_of_its_sides():
    for sizes in ((3, 2), (2, 3)):
        agree(
            lambda t, sizes=sizes: t.autograd.functional.jacobian(
                t.linalg.pinv, numbers(t, *sizes, dtype="float64")
            )
        )


@pytest.mark.parametrize("rank", [2, 3, 4])
def test_transforms_over_some_dimensions_lie_in_memory_as_on_pytorch(rank):
    for count in range(1, rank + 1):
        for dims in itertools.permutations(range(rank), count):
            for name in ("fftn", "rfftn", "ifftn", "irfftn", "hfftn"):
                found = []
                for t in (rl, torch):
                    result = getattr(t.fft, name)(
                        t.ones(2, 3, 4, 5)[(0,) * (4 - rank)], dim=dims
                    )
                    found.append((tuple(result.shape), result.stride()))
                assert found[0] == found[1], (name, dims)


@pytest.mark.parametrize("hop", [1, 2])
def test_windows_one_element_apart_are_put_together_again(hop):
    def there_and_back(t):
        x, window = numbers(t, 20), t.ones(4)
        parts = t.stft(x, 4, hop, window=window, return_complex=True)
        return t.istft(parts, 4, hop, window=window, length=20)

    agree(there_and_back)


@pytest.mark.parametrize(
    "given",
    [
        {"n_fft": 40}, {"hop_length": 0}, {"win_length": 9}, {"normalized": True, "hop_length": -1},
    ],
)  # fmt: skip
def test_a_refused_transform_back_says_all_that_it_was_given(given):
    words = []
    for t in (rl, torch):
        options = {"n_fft": 4, "window": t.ones(4), **given}
        with pytest.raises(RuntimeError) as error:
            t.istft(t.ones(3, 5, dtype=t.complex64), **options)
        words.append(str(error.value).split("\n")[0].replace("rushlight.", "torch."))
    assert words[0] == words[1]
