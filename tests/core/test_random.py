"""One seed gives PyTorch's numbers: the generator, its state, the distributions."""

import copy
import pickle

import numpy as np
import pytest

import rushlight as rl

SEEDS = (0, 1, 7, 2**40 + 5, 2**63 - 1, -1)
COUNTS = (0, 1, 2, 3, 15, 16, 17, 31, 32, 33, 100, 511, 512, 513, 624, 1000, 4099)
FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("uint8", "int8", "int16", "int32", "int64")
# What a normal number may be off by, relative and absolute.
ROUNDING = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 3e-6, "float64": 1e-14}


@pytest.fixture
def torch():
    """The oracle, with the state of its generator restored afterwards."""
    oracle = pytest.importorskip("torch", reason="the oracle is not installed")
    with oracle.random.fork_rng(devices=[]):
        yield oracle


@pytest.fixture(autouse=True)
def state_restored():
    with rl.random.fork_rng():
        yield


def same(ours, theirs, tolerance=0.0):
    """Whether shapes, dtypes and values agree, and both generators' states."""
    assert tuple(ours.shape) == tuple(theirs.shape)
    assert str(ours.dtype).split(".")[-1] == str(theirs.dtype).split(".")[-1]
    expected, got = theirs.flatten().tolist(), ours.flatten().tolist()
    if tolerance:
        assert np.allclose(got, expected, rtol=tolerance, atol=tolerance)
    else:
        assert got == expected


def state_of(torch):
    return bytes(torch.get_rng_state().tolist())


def both(torch, seed, make, tolerance=0.0):
    """Runs ``make(module)`` on both libraries from one seed and compares."""
    rl.manual_seed(seed)
    torch.manual_seed(seed)
    same(make(rl), make(torch), tolerance)
    assert rl.default_generator.state_bytes() == state_of(torch)


# The generator.


def test_a_fresh_generator_has_the_fixed_default_seed(torch):
    assert rl.Generator().initial_seed() == torch.Generator().initial_seed()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("drawn", [0, 1, 5, 623, 624, 625, 2000])
def test_the_state_has_the_layout_of_the_oracle(torch, seed, drawn):
    torch.manual_seed(seed)
    torch.rand(drawn)
    torch.randn(3)
    generator = rl.Generator()
    generator.set_state_bytes(state_of(torch))
    assert generator.state_bytes() == state_of(torch)
    assert generator.initial_seed() == torch.initial_seed()
    same(rl.randn(3, generator=generator), torch.randn(3), 1e-6)
    same(rl.rand(700, generator=generator), torch.rand(700))


def test_a_state_survives_tensors_copies_and_pickle():
    generator = rl.Generator().manual_seed(5)
    rl.randn(3, generator=generator)
    twins = [
        rl.Generator().set_state(generator.get_state()),
        pickle.loads(pickle.dumps(generator)),
        copy.deepcopy(generator),
        generator.clone_state(),
    ]
    expected = rl.randn(5, generator=generator).tolist()
    for twin in twins:
        assert rl.randn(5, generator=twin).tolist() == expected


def test_a_bad_state_is_refused_and_changes_nothing():
    generator = rl.Generator().manual_seed(5)
    before = generator.state_bytes()
    with pytest.raises(RuntimeError, match="5056 but found .* 3"):
        generator.set_state(rl.zeros(3, dtype=rl.uint8))
    with pytest.raises(TypeError, match="ByteTensor"):
        generator.set_state(rl.zeros(5056))
    with pytest.raises(TypeError, match="ByteTensor"):
        generator.set_state([1, 2])
    with pytest.raises(RuntimeError, match="Invalid mt19937 state"):
        generator.set_state(rl.zeros(5056, dtype=rl.uint8))
    assert generator.state_bytes() == before


@pytest.mark.parametrize("seed", [2**64, -(2**63) - 1])
def test_a_seed_has_64_bits(seed):
    with pytest.raises(ValueError, match="Overflow"):
        rl.manual_seed(seed)


def test_seeding_from_the_system_differs_each_time():
    assert rl.seed() != rl.seed()
    assert rl.initial_seed() < 2**53


def test_forking_restores_the_state():
    rl.manual_seed(3)
    first = rl.rand(2).tolist()
    rl.manual_seed(3)
    with rl.random.fork_rng():
        rl.rand(100)
    assert rl.rand(2).tolist() == first


def test_generators_do_not_disturb_each_other():
    one, two = rl.Generator().manual_seed(1), rl.Generator().manual_seed(1)
    mixed = [(rl.rand(3, generator=one).tolist(), rl.rand(3, generator=two).tolist())
             for _ in range(5)]  # fmt: skip
    assert all(left == right for left, right in mixed)


def test_what_is_no_generator_is_refused():
    with pytest.raises(TypeError):
        rl.rand(3, generator=5)


# The distributions.


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("count", COUNTS)
def test_continuous_numbers_equal_the_oracle(torch, dtype, count):
    def empty(module):
        return module.empty(count, dtype=getattr(module, dtype))

    for seed in SEEDS[:4]:
        both(torch, seed, lambda m: m.rand(count, dtype=getattr(m, dtype)))
        both(torch, seed, lambda m: empty(m).uniform_(-3.3, 7.7))
        both(torch, seed, lambda m: m.randn(count, dtype=getattr(m, dtype)),
             ROUNDING[dtype])  # fmt: skip
        both(torch, seed, lambda m: empty(m).normal_(0.5, 2.0), ROUNDING[dtype])
        both(torch, seed, lambda m: empty(m).exponential_(1.7), 1e-15)
        both(torch, seed, lambda m: empty(m).geometric_(0.3))
        both(torch, seed, lambda m: empty(m).cauchy_(0.3, 2.0), 1e-15)
        both(torch, seed, lambda m: empty(m).log_normal_(0.3, 0.5), 1e-15)


@pytest.mark.parametrize("dtype", (*FLOATS, *INTEGERS, "bool"))
@pytest.mark.parametrize("count", [0, 1, 17, 513, 2000])
def test_discrete_numbers_equal_the_oracle(torch, dtype, count):
    def empty(module):
        return module.empty(count, dtype=getattr(module, dtype))

    for seed in SEEDS[:3]:
        both(torch, seed, lambda m: empty(m).bernoulli_(0.0))
        both(torch, seed, lambda m: empty(m).bernoulli_(0.3))
        both(torch, seed, lambda m: empty(m).bernoulli_(1.0))
        both(torch, seed, lambda m: empty(m).random_())
        if dtype != "bool":
            both(torch, seed, lambda m: empty(m).random_(100))
            both(torch, seed, lambda m: empty(m).random_(3, 97))
            both(torch, seed, lambda m: m.randint(0, 64, (count,),
                                                  dtype=getattr(m, dtype)))  # fmt: skip


@pytest.mark.parametrize(
    "low, high",
    [(0, 1), (0, 2), (-5, 5), (0, 2**28 - 1), (0, 2**28), (-7, 2**28 - 6), (3, 2**31),
     (0, 2**32 + 1), (0, 2**62 + 12345), (-(2**63), 2**63 - 1), (-(2**63), None),
     (5, None)],
)  # fmt: skip
def test_integers_of_any_range_equal_the_oracle(torch, low, high):
    for seed in SEEDS:
        both(torch, seed, lambda m: m.empty(600, dtype=m.int64).random_(low, high))


@pytest.mark.parametrize("dtype", ["int64", "int32", "int16", "float32", "float64"])
@pytest.mark.parametrize("count", [0, 1, 2, 10, 513, 3000])
def test_permutations_equal_the_oracle(torch, dtype, count):
    for seed in SEEDS:
        both(torch, seed, lambda m: m.randperm(count, dtype=getattr(m, dtype)))


def test_numbers_that_follow_one_another_equal_the_oracle(torch):
    """A kept half of a normal pair is used at the right moment."""

    def draw(module):
        normal = [module.randn(count) for count in (3, 5, 1, 16, 1)]
        return module.cat([*normal, module.rand(2), module.empty(3).log_normal_()])

    for seed in SEEDS:
        both(torch, seed, draw, 3e-6)


LAYOUTS = {
    "transposed": lambda m, dtype: m.empty(5, 7, dtype=dtype).t(),
    "strided": lambda m, dtype: m.empty(90, dtype=dtype)[::2],
    "permuted": lambda m, dtype: m.empty(4, 5, 6, dtype=dtype).permute(2, 0, 1),
    "gaps": lambda m, dtype: m.empty(4, 6, 5, dtype=dtype)[:, ::2].permute(2, 0, 1),
    "scalar": lambda m, dtype: m.empty((), dtype=dtype),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_memory_is_filled_in_the_order_of_the_oracle(torch, layout):
    make = LAYOUTS[layout]
    for seed in SEEDS[:3]:
        both(torch, seed, lambda m: make(m, m.float32).uniform_().clone())
        both(torch, seed, lambda m: make(m, m.float32).normal_().clone(), 3e-6)
        both(torch, seed, lambda m: make(m, m.float64).bernoulli_(0.4).clone())
        both(torch, seed, lambda m: make(m, m.int64).random_(0, 50).clone())


@pytest.mark.parametrize("dtype", FLOATS)
def test_bernoulli_of_probabilities_equals_the_oracle(torch, dtype):
    def draw(module):
        chances = module.linspace(0, 1, 1001).to(getattr(module, dtype))
        return module.bernoulli(chances)

    for seed in SEEDS:
        both(torch, seed, draw)
    both(torch, 3, lambda m: m.empty(4, 5, dtype=m.int64).bernoulli_(m.full((5,), 0.5)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("categories", [1, 2, 5, 100, 3000])
def test_multinomial_equals_the_oracle(torch, dtype, categories):
    weights = np.random.RandomState(0).rand(4, categories)

    def table(module):
        return module.tensor(weights.tolist(), dtype=getattr(module, dtype))

    for seed in SEEDS[:3]:
        both(torch, seed, lambda m: m.multinomial(table(m), 7, True))
        both(torch, seed, lambda m: m.multinomial(table(m), 1))
        both(torch, seed, lambda m: m.multinomial(table(m), min(categories, 4)))
        both(torch, seed, lambda m: m.multinomial(table(m)[0], 1))


def test_normal_with_tensors_equals_the_oracle(torch):
    for seed in SEEDS[:3]:
        both(torch, seed, lambda m: m.normal(2.0, 3.0, (4, 5)), 3e-6)
        both(torch, seed, lambda m: m.normal(m.arange(20.0), 3.0), 3e-6)
        both(torch, seed, lambda m: m.normal(1.0, m.arange(20.0)), 3e-6)
        both(torch, seed, lambda m: m.normal(m.ones(3, 1), m.ones(7)), 3e-6)


@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 0.75, 1.0])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("name", ["dropout", "feature_dropout"])
def test_dropout_equals_the_oracle(torch, name, dtype, p):
    def drop(module):
        ones = module.ones(6, 7, 8, dtype=getattr(module, dtype))
        return getattr(module, name)(ones, p, True)

    for seed in SEEDS[:3]:
        both(torch, seed, drop)


@pytest.mark.parametrize("name", ["alpha_dropout", "feature_alpha_dropout"])
def test_alpha_dropout_equals_the_oracle(torch, name):
    both(torch, 3, lambda m: getattr(m, name)(m.ones(6, 7), 0.4, True), 1e-6)


def test_dropout_in_evaluation_returns_its_input():
    x = rl.ones(3)
    assert rl.dropout(x, 0.5, False) is x
    assert rl.dropout(x, 0.0, True) is x


def test_the_gradient_of_dropout_is_its_mask():
    x = rl.ones(100, requires_grad=True)
    y = rl.dropout(x, 0.3, True)
    y.sum().backward()
    assert x.grad.tolist() == y.detach().tolist()


def test_a_filled_tensor_loses_its_history():
    x = rl.ones(4, requires_grad=True)
    y = x * 2
    y.uniform_()
    y.sum().backward()
    assert x.grad.tolist() == [0.0] * 4


def test_random_like_takes_over_shape_and_dtype(torch):
    def like(function, *args):
        return lambda m: getattr(m, function)(m.zeros(3, 4, dtype=m.float64), *args)

    both(torch, 1, like("rand_like"))
    both(torch, 1, like("randn_like"), 1e-14)
    both(torch, 1, like("randint_like", 9))
    both(torch, 1, like("randint_like", -9, 9))


def test_meta_tensors_draw_nothing():
    before = rl.default_generator.state_bytes()
    x = rl.empty(10**9, 10**6, device="meta").uniform_().normal_()
    assert x.shape == (10**9, 10**6)
    assert rl.default_generator.state_bytes() == before


ERRORS = {
    "uniform_ expects to return a": lambda: rl.empty(3).uniform_(2, 1),
    "normal expects std >= 0.0, but found std -1": lambda: rl.empty(3).normal_(0, -1),
    "exponential_ expects lambda > 0.0": lambda: rl.empty(3).exponential_(0),
    r"geometric_ expects p to be in \(0, 1\)": lambda: rl.empty(3).geometric_(1.5),
    "cauchy_ expects sigma > 0.0": lambda: rl.empty(3).cauchy_(0, 0),
    "log_normal_ expects std > 0.0": lambda: rl.empty(3).log_normal_(0, -1),
    r"bernoulli_ expects p to be in \[0, 1\]": lambda: rl.empty(3).bernoulli_(1.5),
    "p_in >= 0 && p_in <= 1": lambda: rl.bernoulli(rl.full((3,), 1.5)),
    "'from' to be less than 'to'": lambda: rl.empty(3).random_(5, 5),
    "to - 1 is out of bounds": lambda: rl.empty(3, dtype=rl.uint8).random_(0, 300),
    "from is out of bounds": lambda: rl.empty(3, dtype=rl.uint8).random_(-1, 3),
    "n must be non-negative": lambda: rl.randperm(-1),
    "n is too large": lambda: rl.randperm(3000, dtype=rl.float16),
    "uint8_t without overflow": lambda: rl.randperm(300, dtype=rl.uint8),
    "prob_dist must be 1 or 2 dim": lambda: rl.multinomial(rl.ones(1, 1, 1), 1),
    "cannot sample n_sample <= 0": lambda: rl.multinomial(rl.ones(3), 0),
    "without replacement": lambda: rl.multinomial(rl.ones(3), 4),
    "contains either": lambda: rl.multinomial(rl.tensor([1.0, -1.0]), 1),
    "sum of probabilities <= 0": lambda: rl.multinomial(rl.zeros(3), 1),
    "dropout probability": lambda: rl.dropout(rl.ones(3), 1.5, True),
    "more than one element": lambda: rl.empty(1).expand(3).uniform_(),
}  # fmt: skip


@pytest.mark.parametrize("message", ERRORS)
def test_a_bad_parameter_is_refused(message):
    with pytest.raises(RuntimeError, match=message):
        ERRORS[message]()


def test_integers_have_no_uniform_numbers():
    with pytest.raises(NotImplementedError, match="not implemented for 'Long'"):
        rl.empty(3, dtype=rl.int64).uniform_()
