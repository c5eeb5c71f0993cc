"""Fourier transforms: laws, every length and layout, and PyTorch's answers."""

import math
import warnings

import numpy as np
import pytest

import rushlight as rl
from rushlight.autograd import gradcheck, gradgradcheck
from rushlight.ir import expr as ir
from rushlight.kernels.fft.fft_radix import lanes_of, root, roots
from rushlight.kernels.fft.fft_steps import (
    NEITHER,
    Along,
    steps_of,
    strided_steps,
    table_of,
    table_roots,
)
from rushlight.kernels.loop_helpers import rolled
from rushlight.operators.spectral.fft_schedule import (
    LONG,
    radices_of,
    sides_of,
    transform_lines,
)
from tests.operators.test_contraction import run_native, run_reference

LENGTHS = [
    *range(1, 36),
    48,
    49,
    60,
    97,
    100,
    128,
    243,
    256,
    257,
    500,
    1000,
    1009,
    4096,
]
BOUND = {"complex64": 6e-7, "complex128": 4e-15}


def numbers(*shape, dtype="complex128", seed=0):
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape)
    if dtype.startswith("complex"):
        values = values + 1j * rng.standard_normal(shape)
    return rl.from_numpy(values.astype(dtype))


def error(result, expected):
    """The largest difference, over the largest value."""
    return np.abs(result.numpy() - expected).max() / max(np.abs(expected).max(), 1e-300)


def sum_over_roots(x, forward=True):
    """The transform by its definition, in double precision."""
    n = x.shape[-1]
    roots = np.exp((-2j if forward else 2j) * np.pi * np.arange(n) / n)
    turns = np.outer(np.arange(n), np.arange(n)) % n
    return x.astype(complex) @ roots[turns]


@pytest.mark.parametrize("dtype", BOUND)
@pytest.mark.parametrize("n", LENGTHS)
def test_transform_is_the_sum_over_roots_of_one(n, dtype):
    x = numbers(3, n, dtype=dtype)
    expected = sum_over_roots(x.numpy())
    assert error(rl.fft.fft(x), expected) < BOUND[dtype]
    assert error(rl.fft.fft(x.real), sum_over_roots(x.real.numpy())) < BOUND[dtype]
    half = sum_over_roots(x.real.numpy())[:, : n // 2 + 1]
    assert error(rl.fft.rfft(x.real), half) < BOUND[dtype]
    back = sum_over_roots(x.numpy(), forward=False) / n
    assert error(rl.fft.ifft(x), back) < BOUND[dtype]


@pytest.mark.parametrize("lines", [1, 2, 7, 8, 9, 15, 16, 17, 33])
@pytest.mark.parametrize("n", [2, 8, 15, 64, 100, 128, 1000])
def test_any_number_of_lines_gives_what_each_gives_alone(n, lines):
    for dtype in ("complex64", "complex128", "float32", "float64"):
        x = numbers(lines, n, dtype=dtype)
        alone = [rl.fft.fft(line).numpy() for line in x]
        bound = BOUND[
            "complex64" if dtype in ("complex64", "float32") else "complex128"
        ]
        assert error(rl.fft.fft(x), np.stack(alone)) < bound
        assert error(rl.fft.fft(x.t(), dim=0), np.stack(alone).T) < bound
        back = rl.fft.irfft(rl.fft.rfft(x.real if x.is_complex() else x), n)
        assert error(back, (x.real if x.is_complex() else x).numpy()) < bound


@pytest.mark.parametrize("n", [1, 2, 3, 12, 17, 100])
def test_halves_are_inverses_of_each_other(n):
    x = numbers(4, n, dtype="float64")
    np.testing.assert_allclose(
        rl.fft.irfft(rl.fft.rfft(x), n).numpy(), x.numpy(), atol=1e-13
    )
    np.testing.assert_allclose(
        rl.fft.hfft(rl.fft.ihfft(x), n).numpy(), x.numpy(), atol=1e-13
    )


def test_energy_is_kept_by_ortho():
    x = numbers(5, 60)
    energy = (x.abs() ** 2).sum().item()
    for result in (rl.fft.fft(x, norm="ortho"), rl.fft.fftn(x, norm="ortho")):
        assert (result.abs() ** 2).sum().item() == pytest.approx(energy, rel=1e-13)


def test_a_product_of_transforms_is_the_transform_of_a_convolution():
    a, b = numbers(37), numbers(37, seed=1)
    direct = sum(b[k] * a.roll(k) for k in range(37))
    product = rl.fft.ifft(rl.fft.fft(a) * rl.fft.fft(b))
    np.testing.assert_allclose(product.numpy(), direct.numpy(), atol=1e-12)


@pytest.mark.parametrize("dims", [(0, 1), (1, 0), (0, 2), (2, 0), (0, 1, 2), (2, 1, 0)])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_layouts_and_values_are_those_of_the_oracle(dims, order):
    torch = pytest.importorskip("torch")
    z = numbers(3, 4, 5).permute(order)
    theirs = torch.from_numpy(z.numpy().copy(order="K"))
    for name, ours, other in (
        ("fftn", z, theirs), ("fftn", z.real, theirs.real), ("ifftn", z, theirs),
        ("rfftn", z.real, theirs.real), ("irfftn", z, theirs), ("hfftn", z, theirs),
        ("ihfftn", z.real, theirs.real),
    ):  # fmt: skip
        result = getattr(rl.fft, name)(ours, dim=dims)
        expected = getattr(torch.fft, name)(other, dim=dims)
        if ours.is_complex():
            assert result.stride() == expected.stride(), name
        assert error(result, expected.numpy()) < 1e-14, name


def test_conjugates_and_negatives_are_seen():
    x = numbers(3, 16)
    plain = rl.fft.fft(x.conj().resolve_conj())
    assert (rl.fft.fft(x.conj()) - plain).abs().max().item() < 1e-14
    assert (rl.fft.rfft(x.conj().imag) + rl.fft.rfft(x.imag)).abs().max().item() < 1e-14


def on_pairs(function):
    """A function of complex numbers as one of pairs, with real results."""

    def real(pairs):
        result = function(rl.view_as_complex(pairs))
        return rl.view_as_real(result) if result.is_complex() else result

    return real


def on_real(function):
    """A function of real numbers with real results."""

    def real(x):
        result = function(x)
        return rl.view_as_real(result.resolve_conj()) if result.is_complex() else result

    return real


@pytest.mark.parametrize("n", [None, 1, 4, 5])
@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
def test_gradients_of_one_dimension(norm, n):
    z = numbers(2, 5, 2, dtype="float64").requires_grad_()
    x = numbers(2, 6, dtype="float64").requires_grad_()
    for name in ("fft", "ifft", "irfft", "hfft"):
        function = getattr(rl.fft, name)
        assert gradcheck(on_pairs(lambda t, f=function: f(t, n, norm=norm)), (z,))
    for name in ("fft", "rfft", "ihfft"):
        function = getattr(rl.fft, name)
        assert gradcheck(on_real(lambda t, f=function: f(t, n, norm=norm)), (x,))
    assert gradgradcheck(on_real(lambda t: rl.fft.rfft(t, n, norm=norm)), (x,))
    assert gradgradcheck(on_pairs(lambda t: rl.fft.irfft(t, n, norm=norm)), (z,))


def test_gradients_of_several_dimensions():
    z = numbers(2, 3, 4, 2, dtype="float64").requires_grad_()
    x = numbers(2, 3, 4, dtype="float64").requires_grad_()
    for name in ("fftn", "ifftn", "irfftn", "hfftn"):
        function = getattr(rl.fft, name)
        assert gradcheck(on_pairs(lambda t, f=function: f(t, dim=(0, 2))), (z,))
    for name in ("rfftn", "ihfftn", "fft2"):
        assert gradcheck(on_real(getattr(rl.fft, name)), (x,))


@pytest.mark.parametrize(
    "call",
    [
        lambda m, x, z: m.fft.fft(x, n=0),
        lambda m, x, z: m.fft.fft(x, norm="both"),
        lambda m, x, z: m.fft.fft(x, dim=5),
        lambda m, x, z: m.fft.rfft(z),
        lambda m, x, z: m.fft.ihfft(z),
        lambda m, x, z: m.fft.rfftn(z),
        lambda m, x, z: m.fft.fftn(x, s=(2, 2), dim=(0,)),
        lambda m, x, z: m.fft.fftn(x, dim=(0, 0)),
        lambda m, x, z: m.fft.fftn(x, s=(1, 1, 1, 1)),
        lambda m, x, z: m.fft.rfftn(x, dim=()),
        lambda m, x, z: m.fft.irfftn(z, dim=()),
        lambda m, x, z: m.fft.irfft(m.ones(1)),
        lambda m, x, z: m.fft.fft(m.ones(3, dtype=m.float16)),
        lambda m, x, z: m.fft.fft(m.tensor(1.0)),
        lambda m, x, z: m.fft.fftfreq(3, dtype=m.int64),
        lambda m, x, z: m.stft(m.ones(20), 8, window=m.ones(8)),
        lambda m, x, z: m.stft(m.ones(20), 8, window=m.ones(7), return_complex=True),
        lambda m, x, z: m.stft(m.ones(20), 8, 0, window=m.ones(8), return_complex=True),
        lambda m, x, z: m.istft(m.ones(5, 3), 8, window=m.ones(8)),
        lambda m, x, z: m.istft(m.ones(4, 3) * 1j, 8, window=m.ones(8)),
    ],
)
def test_mistakes_are_refused_in_the_words_of_the_oracle(call):
    torch = pytest.importorskip("torch")
    x = np.ones((3, 4, 5), "float32")
    with pytest.raises(Exception) as theirs:
        call(torch, torch.from_numpy(x), torch.from_numpy(x * 1j))
    with pytest.raises(type(theirs.value)) as ours:
        call(rl, rl.from_numpy(x), rl.from_numpy(x * 1j))
    assert str(ours.value).split("\n")[0] == str(theirs.value).split("\n")[0]


@pytest.mark.parametrize("length", [50, 64])
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("normalized", [True, False])
def test_short_time_transforms_are_undone(length, center, normalized):
    x = numbers(2, length, dtype="float64")
    window = rl.hamming_window(12, dtype=rl.float64)
    settings = {
        "hop_length": 4, "win_length": 12, "window": window, "center": center,
        "normalized": normalized,
    }  # fmt: skip
    spectra = rl.stft(x, 16, **settings, return_complex=True)
    assert spectra.shape[:2] == (2, 9)
    if center:
        back = rl.istft(spectra, 16, **settings, length=length)
        np.testing.assert_allclose(back.numpy(), x.numpy(), atol=1e-13)


def test_a_missing_window_is_warned_about(nothing_said_yet):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        rl.stft(rl.ones(20), 8, return_complex=True)
    assert "A window was not provided" in str(seen[0].message)


def test_plans_multiply_to_the_size():
    for size in range(1, 300):
        radices = radices_of(size)
        if radices is None:
            assert any(size % p == 0 for p in range(11, size + 1))
        else:
            assert np.prod(radices, initial=1) == size


def test_steps_multiply_to_the_size():
    for itemsize in (4, 8):
        for size in range(1, 600):
            for steps in (table_of(size, itemsize), strided_steps(size, itemsize)):
                assert steps is None or np.prod(steps, initial=1) == size
    assert table_of(1 << 20, 4) is None  # lines that would not stay close by


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [9, 11, 13, 34, 37, 57, 105, 169, 202, 243, 303, 330])
def test_many_lines_of_odd_lengths_and_primes_are_numpys(size, dtype):
    """A lane for each line: whole blocks, parts of one, one line, and lines with gaps."""
    rng, close = np.random.default_rng(size), 3e-6 if dtype == "float32" else 1e-14
    for count in (1, 3, 7, 37):
        real = rng.standard_normal((count, size)).astype(dtype)
        pairs = (real + 1j * rng.standard_normal((count, size))).astype(
            f"c{real.itemsize * 2}"
        )
        half = np.fft.rfft(real).astype(pairs.dtype)
        for x, mine, theirs in (
            (pairs, rl.fft.fft, np.fft.fft),
            (pairs, rl.fft.ifft, np.fft.ifft),
            (real, rl.fft.fft, np.fft.fft),
            (real, rl.fft.rfft, np.fft.rfft),
            (half, lambda x: rl.fft.irfft(x, n=size), lambda x: np.fft.irfft(x, n=size)),
        ):  # fmt: skip
            exact = theirs(x)
            gaps = rl.tensor(np.repeat(x, 2, 0))[::2]
            for tensor in (rl.tensor(x), gaps, rl.tensor(x.T).t()):
                found = mine(tensor).numpy()
                assert np.abs(found - exact).max() <= close * np.abs(exact).max()


def test_lengths_without_large_primes_have_steps():
    primes = [p for p in range(2, 256) if all(p % q for q in range(2, p))]
    for size in range(2, 2000):
        rest = size
        for prime in primes:
            while rest % prime == 0:
                rest //= prime
        assert (steps_of(size) is not None) == (rest == 1)


@pytest.mark.parametrize("run", [run_native, run_reference])
@pytest.mark.parametrize("size", [37, 82, 111])
def test_steps_by_a_prime_in_loops_are_the_transform(run, size):
    """37 and 41 leave results over after blocks of four; roots of one are between steps."""
    lines = np.random.default_rng(size).standard_normal((3, size, 2)).astype("float32")
    written = Along(ir.f32, size, True, False, NEITHER).write()
    function = ir.kernel(f"lines_{size}", rolled(written))
    rows, *steps = table_of(size, 4)
    table = table_roots(rows, tuple(steps), NEITHER, rl.float32).numpy()
    out, scale = np.empty_like(lines), np.ones(1, np.float32)
    blocks = -(-3 // (lanes_of(4) // rows))
    run(
        function,
        (out, lines, scale, table),
        (2 * size, 2 * size, 0, 0, 3, blocks),
        blocks,
    )
    exact = np.fft.fft(lines[..., 0] + 1j * lines[..., 1])
    found = out[..., 0] + 1j * out[..., 1]
    assert np.abs(found - exact).max() < 1e-6 * np.abs(exact).max()


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 12, 49, 96, 1000, 1009])
def test_roots_of_one_are_the_closest_numbers(count):
    turns = np.arange(-count, 3 * count)
    angle = 2 * np.longdouble(np.pi) * turns / count
    # what pi of float64 lacks counts in the last digits
    angle += 2 * np.longdouble(1.2246467991473532e-16) * turns / count
    exact = np.cos(angle), -np.sin(angle)
    for part, wide in zip(
        roots(rl.from_numpy(turns).double(), count), exact, strict=True
    ):
        assert abs(part.numpy() - wide).max() < 1.7e-16
    own = np.array([root(int(k), count) for k in turns])
    assert abs(own.real - exact[0]).max() < 1.7e-16
    assert abs(own.imag - exact[1]).max() < 1.7e-16


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("size", [24, 64, 96, 360, 512, 1000, 2048])
def test_errors_are_no_larger_than_the_oracles(size, dtype):
    torch = pytest.importorskip("torch")
    x = numbers(40, size, dtype=dtype)
    wide = x.numpy().astype("clongdouble")
    real = np.ascontiguousarray(x.real.numpy())
    half = x[:, : size // 2 + 1].contiguous()
    for name, ours, exact in (
        ("fft", x, np.fft.fft(wide)),
        ("ifft", x, np.fft.ifft(wide)),
        ("rfft", rl.from_numpy(real), np.fft.rfft(real.astype("longdouble"))),
        ("irfft", half, np.fft.irfft(wide[:, : size // 2 + 1])),
    ):
        theirs = getattr(torch.fft, name)(torch.from_numpy(ours.numpy())).numpy()
        ours = getattr(rl.fft, name)(ours).numpy()
        spread = [np.sqrt((abs(one - exact) ** 2).mean()) for one in (ours, theirs)]
        assert spread[0] < 1.2 * spread[1], name


@pytest.mark.parametrize("size", [2, 4, 6, 24, 64, 1000, 1 << 18])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_whole_transforms_of_real_lines_mirror_themselves(dtype, size):
    x = numbers(3, size, dtype=dtype)
    whole, half = rl.fft.fft(x), rl.fft.rfft(x)
    assert rl.equal(whole[:, : size // 2 + 1], half)
    assert rl.equal(whole[:, 1:].flip(1), whole[:, 1:].conj())
    assert (whole.imag[:, :: size // 2] == 0).all()
    sets = numbers(2, 3, size + 1, dtype=dtype)[:, 1:, 1:]
    exact = np.fft.ifft(sets.numpy().astype("longdouble"))
    back = rl.fft.ifft(sets).resolve_conj()
    assert error(back, exact) < (1e-6 if dtype == "float32" else 1e-14)


@pytest.mark.parametrize("size", [24, 64, 192, 1000])
def test_imaginary_parts_of_what_is_real_do_not_count(size):
    for dtype in ("complex64", "complex128"):
        half = numbers(9, size // 2 + 1, dtype=dtype)
        plain = half.clone()
        for end in (0, -1):
            rl.imag(plain)[:, end] = 0.0
            rl.imag(half)[:, end] = math.inf
        assert rl.equal(rl.fft.irfft(half), rl.fft.irfft(plain))


def test_shapes_are_known_without_data():
    x = rl.empty(3, 10, device="meta")
    assert rl.fft.rfft(x).shape == (3, 6)
    assert rl.fft.fft2(x).dtype is rl.complex64
    assert rl.fft.irfft(rl.empty(3, 6, device="meta", dtype=rl.complex128)).shape == (
        3,
        10,
    )


@pytest.mark.parametrize("count", [64, 70])
@pytest.mark.parametrize("size", [8, 16, 24, 32, 64, 96, 100, 128, 256, 360, 512])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft"])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_many_short_lines_are_transformed_as_few_are(dtype, name, size, count):
    rl.manual_seed(size + count)
    x = rl.randn(count, size, dtype=getattr(rl, dtype))
    x = x.real.contiguous() if name == "rfft" else x
    x[3, 2] = -0.0
    function = getattr(rl.fft, name)
    few = rl.cat([function(x[k : k + 5]) for k in range(0, count, 5)])
    assert rl.equal(function(x), few)
    apart = rl.zeros(count, 2 * size, dtype=x.dtype)
    apart[:, :size] = x
    assert rl.equal(function(apart[:, :size]), few)
    turned = x.t().contiguous().t()
    limit = 1e-5 if dtype == "complex64" else 1e-13
    assert (function(turned) - few).abs().max() < limit * size


@pytest.mark.parametrize("size", [2, 7, 16, 32, 64, 100, 128, 256, 480])
@pytest.mark.parametrize("sets, beside", [(1, 2), (1, 16), (3, 7), (3, 19), (2, 40)])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_lines_side_by_side_are_transformed_in_place_and_elsewhere(
    dtype, sets, beside, size
):
    rl.manual_seed(size + beside)
    wide = rl.randn(sets, size, beside + 3, dtype=getattr(rl, dtype))
    limit = (1e-5 if dtype == "complex64" else 1e-13) * size
    for x in (wide[..., :beside].contiguous(), wide[..., 1 : beside + 1]):
        values = x.numpy().astype("complex128")
        for forward, scale in ((True, 1.0), (False, 1.0), (True, 0.5)):
            exact = np.fft.fft(values, axis=1)
            if not forward:
                exact = np.fft.ifft(values, axis=1) * size
            out = rl.full((sets, size, beside + 2), 7.0, dtype=x.dtype)
            transform_lines(x, out[..., 1:-1], 1, forward, scale)
            assert abs(out[..., 1:-1].numpy() - exact * scale).max() < limit
            assert (out[..., 0] == 7).all() and (out[..., -1] == 7).all()
            held = x.clone()
            transform_lines(held, held, 1, forward, scale)
            assert rl.equal(held, out[..., 1:-1])


@pytest.mark.parametrize("size", [18, 20, 24, 30, 32, 64, 96, 128, 200, 256, 1000])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_lines_of_some_vectors_lie_in_sets_and_write_nothing_else(dtype, size):
    rl.manual_seed(size)
    wide = rl.randn(3, 7, size + 2, dtype=getattr(rl, dtype))
    limit = (1e-5 if dtype == "complex64" else 1e-13) * size
    x = wide[:, 1:6, 1:-1]
    exact = np.fft.fft(x.numpy().astype("complex128"))
    held = wide.clone()
    transform_lines(held[:, 1:6, 1:-1], held[:, 1:6, 1:-1], 2, True, 1.0)
    assert abs(held[:, 1:6, 1:-1].numpy() - exact).max() < limit
    inside = rl.zeros(wide.shape, dtype=rl.bool)
    inside[:, 1:6, 1:-1] = True
    assert rl.equal(held[~inside], wide[~inside])
    real = wide.real[:, 1:6, :-2].contiguous()
    exact = np.fft.rfft(real.numpy().astype("float64"))
    assert abs(rl.fft.rfft(real).numpy() - exact).max() < limit
    held = wide.clone()
    transform_lines(real, held[:, 1:6, 1:-1], 2, True, 0.5)
    exact = np.fft.fft(real.numpy().astype("float64")) / 2
    assert abs(held[:, 1:6, 1:-1].numpy() - exact).max() < limit
    assert rl.equal(held[~inside], wide[~inside])
    # nothing is read beside half a line, nor written beside the whole one
    half = rl.full((3, 7, size // 2 + 3), math.nan, dtype=wide.dtype)
    half[:, 1:6, 1:-1] = wide[:, 1:6, : size // 2 + 1]
    exact = np.fft.irfft(half[:, 1:6, 1:-1].numpy().astype("complex128"), size)
    held = rl.full(wide.shape, 7.0, dtype=real.dtype)
    lines = held[:, 1:6, 1:-1]
    transform_lines(half[:, 1:6, 1:-1], lines, 2, False, 1 / size, size)
    assert abs(lines.numpy() - exact).max() < limit
    assert (held[~inside] == 7).all()


def test_transforms_of_small_tensors_follow_plans():
    x = rl.randn(64, dtype=rl.complex64)
    right = [rl.fft.fft(x * k) for k in range(4)]
    with rl.inference_mode():
        for k in range(4):
            assert rl.equal(rl.fft.fft(x * k), right[k])


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("size", [LONG, 3**10, 100000])
def test_long_lines_are_tables_whose_lines_threads_share(size, dtype):
    rows, columns = sides_of(size)
    assert rows * columns == size and 4 * rows > columns
    rl.manual_seed(size)
    x = rl.randn(3, size, dtype=getattr(rl, dtype))
    exact = np.fft.fft(x.numpy().astype("complex128"))
    before, found = rl.get_num_threads(), []
    try:
        for threads in 1, 2:
            rl.set_num_threads(threads)
            found.append(rl.fft.fft(x))
    finally:
        rl.set_num_threads(before)
    error = abs(found[0].numpy() - exact).std() / exact.std()
    assert error < (1e-7 if dtype == "complex64" else 4e-16)
    assert found[0].equal(found[1])
    assert rl.fft.fft(x[1]).equal(found[0][1])
    back = rl.fft.ifft(found[0]) - x
    assert back.abs().max() < (3e-6 if dtype == "complex64" else 3e-15)
    held = x.clone()
    assert transform_lines(held, held, 1, True, 1.0).equal(found[0])
    wide = rl.zeros(3, 2 * size, dtype=x.dtype)
    wide[:, ::2] = x
    assert rl.allclose(rl.fft.fft(wide[:, ::2]), found[0], rtol=0, atol=1e-2)


def test_only_long_lines_without_large_primes_are_tables():
    assert sides_of(LONG // 2) is None
    assert sides_of(LONG + 1) is None
    assert sides_of(1 << 20) == (1024, 1024)
