"""New tensors and random ones are PyTorch's in every dtype: bits, or the refusal."""

import functools

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")

DTYPES = (
    "bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 bfloat16 float32 "
    "float64 complex64 complex128 float8_e4m3fn float8_e5m2 float8_e4m3fnuz "
    "float8_e5m2fnuz float8_e8m0fnu"
).split()

# name -> what is made of a module and a dtype
MAKERS = {
    "rand": lambda m, d: m.rand(20, dtype=d),
    "randn": lambda m, d: m.randn(20, dtype=d),
    "rand of none": lambda m, d: m.rand(0, dtype=d),
    "randn of none": lambda m, d: m.randn(0, dtype=d),
    "randint": lambda m, d: m.randint(0, 10, (5,), dtype=d),
    "randint beyond the digits": lambda m, d: m.randint(0, 5000, (5,), dtype=d),
    "randint on both sides": lambda m, d: m.randint(-5, 5, (5,), dtype=d),
    "randperm": lambda m, d: m.randperm(5, dtype=d),
    "randperm of none": lambda m, d: m.randperm(0, dtype=d),
    "randperm of many": lambda m, d: m.randperm(300, dtype=d),
    "zeros": lambda m, d: m.zeros(3, dtype=d),
    "ones": lambda m, d: m.ones(3, dtype=d),
    "full": lambda m, d: m.full((3,), 2, dtype=d),
    "full of a fraction": lambda m, d: m.full((3,), 2.5, dtype=d),
    "full of a truth value": lambda m, d: m.full((3,), True, dtype=d),
    "full of a complex number": lambda m, d: m.full((3,), 1j, dtype=d),
    "full of a large number": lambda m, d: m.full((3,), 300, dtype=d),
    "full of a negative number": lambda m, d: m.full((3,), -1, dtype=d),
    "eye": lambda m, d: m.eye(3, dtype=d),
    "eye of none": lambda m, d: m.eye(0, dtype=d),
    "arange": lambda m, d: m.arange(5, dtype=d),
    "arange by fractions": lambda m, d: m.arange(0.5, 5, 1.5, dtype=d),
    "range": lambda m, d: m.range(0, 5, dtype=d),
    "linspace": lambda m, d: m.linspace(0, 5, 4, dtype=d),
    "linspace of one": lambda m, d: m.linspace(2, 5, 1, dtype=d),
    "linspace of none": lambda m, d: m.linspace(2, 5, 0, dtype=d),
    "logspace of one": lambda m, d: m.logspace(0, 2, 1, dtype=d),
    "scalar_tensor": lambda m, d: m.scalar_tensor(2, dtype=d),
    "tensor": lambda m, d: m.tensor([0, 1, 2], dtype=d),
    "tril_indices": lambda m, d: m.tril_indices(3, 3, dtype=d),
    "triu_indices": lambda m, d: m.triu_indices(3, 3, dtype=d),
    "normal": lambda m, d: m.normal(2.0, 1.0, (3,), dtype=d),
    "normal around": lambda m, d: m.normal(m.ones(3, dtype=d), 1.0),
    "hann_window of one": lambda m, d: m.hann_window(1, dtype=d),
    "bernoulli": lambda m, d: m.bernoulli(m.ones(3, dtype=d)),
    "bernoulli of one": lambda m, d: m.bernoulli(m.ones(3, dtype=d), 0.5),
    "poisson": lambda m, d: m.poisson(m.ones(3, dtype=d)),
    "multinomial": lambda m, d: m.multinomial(m.ones(3, dtype=d), 2),
    "dropout": lambda m, d: m.nn.functional.dropout(m.ones(4, dtype=d), 0.5),
    "native_dropout": lambda m, d: m.native_dropout(m.ones(4, dtype=d), 0.5, True)[0],
    "rrelu": lambda m, d: m.nn.functional.rrelu(m.ones(4, dtype=d), training=True),
    "rand_like": lambda m, d: m.rand_like(m.ones(3), dtype=d),
    "randn_like": lambda m, d: m.randn_like(m.ones(3, dtype=d)),
    "randint_like": lambda m, d: m.randint_like(m.ones(3, dtype=d), 10),
    "full_like": lambda m, d: m.full_like(m.ones(3, dtype=d), 2),
    "new_full": lambda m, d: m.ones(2, dtype=d).new_full((3,), 2),
}
# Cosines differ in their last bits.
WINDOWS = {
    "hann_window": lambda m, d: m.hann_window(5, dtype=d),
    "hamming_window": lambda m, d: m.hamming_window(7, dtype=d),
    "blackman_window": lambda m, d: m.blackman_window(5, dtype=d),
    "bartlett_window": lambda m, d: m.bartlett_window(6, dtype=d),
    "bartlett_window whole": lambda m, d: m.bartlett_window(6, False, dtype=d),
    "kaiser_window": lambda m, d: m.kaiser_window(5, dtype=d),
}
# method -> arguments, a set for each case
METHODS = {
    "uniform_": [(), (1, 2), (2, 1), (0, 1e30)],
    "normal_": [(), (5, 2), (0, -1)],
    "log_normal_": [(), (0, 0)],
    "exponential_": [(), (0,)],
    "geometric_": [(0.5,), (2,)],
    "cauchy_": [(), (0, -1)],
    "bernoulli_": [(), (2,)],
    "random_": [(), (10,), (3, 10), (-5, 5), (5, 3), (10**6,)],
}
# What a factory writes into `out=` is of the type of `out`.
WRITERS = {
    "rand": lambda m, out: m.rand(3, out=out),
    "randn": lambda m, out: m.randn(3, out=out),
    "normal": lambda m, out: m.normal(0.0, 1.0, (3,), out=out),
    "randint": lambda m, out: m.randint(5, (3,), out=out),
    "randperm": lambda m, out: m.randperm(3, out=out),
    "zeros": lambda m, out: m.zeros(3, out=out),
    "ones": lambda m, out: m.ones(3, out=out),
    "full": lambda m, out: m.full((3,), 2.5, out=out),
    "arange": lambda m, out: m.arange(3, out=out),
    "range": lambda m, out: m.range(0, 2, out=out),
    "linspace": lambda m, out: m.linspace(0, 3, 3, out=out),
    "another type": lambda m, out: m.zeros(3, dtype=m.int8, out=out),
}


def bits(t):
    """The elements as integers, and so comparable where they are NaN."""
    module = rl if isinstance(t, rl.Tensor) else torch
    if t.dtype is module.bool:
        return t.tolist()
    return t.reshape(-1).view(module.uint8).tolist() if t.numel() else []


def outcome(module, make, name):
    """Type, sizes and bits of what is made; or the kind of the refusal."""
    module.manual_seed(3)
    try:
        made = make(module, getattr(module, name))
    except (RuntimeError, TypeError, ValueError) as error:
        return type(error).__name__
    return str(made.dtype).rpartition(".")[2], tuple(made.shape), bits(made)


def assert_same(make, name):
    assert outcome(rl, make, name) == outcome(torch, make, name)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("maker", MAKERS)
def test_new_tensors_are_the_same_or_refused_alike(maker, name):
    assert_same(MAKERS[maker], name)


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("window", WINDOWS)
def test_windows_are_rounded_as_often_or_refused_alike(window, name):
    def values(module, dtype):
        made = WINDOWS[window](module, dtype)
        assert made.dtype is dtype
        return made.to(module.float64)

    outcomes = [outcome(m, values, name) for m in (rl, torch)]
    if isinstance(outcomes[1], str) or isinstance(outcomes[0], str):
        assert outcomes[0] == outcomes[1]
        return
    eps = torch.finfo(getattr(torch, name)).eps
    ours, theirs = (values(m, getattr(m, name)).tolist() for m in (rl, torch))
    assert ours == pytest.approx(theirs, abs=4 * eps)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("method", METHODS)
def test_tensors_filled_at_random_are_the_same_or_refused_alike(method, name):
    for size in (0, 3, 20):
        for arguments in METHODS[method]:

            def fill(m, d, size=size, arguments=arguments):
                return getattr(m.ones(size, dtype=d), method)(*arguments)

            assert_same(fill, name)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("writer", WRITERS)
def test_factories_write_in_the_type_of_their_output(writer, name):
    assert_same(lambda m, d: WRITERS[writer](m, m.zeros(3, dtype=d)), name)


def test_factories_refuse_options_that_their_output_has_not():
    for options in ({"dtype": rl.int8}, {"device": "meta"}):
        with pytest.raises(RuntimeError, match="does not match"):
            rl.zeros(3, out=rl.zeros(3), **options)


@pytest.mark.parametrize("bounds", [(0, 1000), (-1000, 1000), (-999, 2), (2**20, None)])
@pytest.mark.parametrize("name", ["bfloat16", "float16", "float32"])
@pytest.mark.filterwarnings("ignore")
def test_integers_beyond_a_types_digits_have_pytorchs_bounds(name, bounds):
    assert_same(lambda m, d: m.zeros(50, dtype=d).random_(*bounds), name)


def test_integers_beyond_a_types_digits_are_warned_of():
    with pytest.warns(
        UserWarning, match=r"to - 1 is out of bounds \[-\(2\^8\), 2\^8\]"
    ):
        rl.randint(0, 1000, (2,), dtype=rl.bfloat16)


def test_a_message_for_a_type_that_is_only_stored_names_kernel_and_type():
    with pytest.raises(NotImplementedError, match="for 'Float8_e4m3fn'"):
        functools.partial(rl.rand, dtype=rl.float8_e4m3fn)(3)
