"""Random numbers of cards: Philox's own test vectors, and PyTorch's streams."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as rl
from rushlight.nn import functional as F
from rushlight.operators.random import philox

MASK = (1 << 32) - 1


def words(counter, key):
    """Philox 4x32 with ten rounds, as its authors describe it."""
    a, b, c, d = counter
    k, j = key
    for _ in range(10):
        first, second = a * 0xD2511F53, c * 0xCD9E8D57
        a, b, c, d = (
            second >> 32 ^ b ^ k,
            second & MASK,
            first >> 32 ^ d ^ j,
            first & MASK,
        )
        k, j = k + 0x9E3779B9 & MASK, j + 0xBB67AE85 & MASK
    return a, b, c, d


def test_the_reference_gives_the_vectors_that_its_authors_published():
    zeros = words((0, 0, 0, 0), (0, 0))
    assert zeros == (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)
    ones = words((MASK,) * 4, (MASK,) * 2)
    assert ones == (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)


@pytest.fixture(autouse=True)
def _machine(machine):
    rl.cuda.manual_seed(0)


def stream(count, seed, offset, wide=False):
    """The words of ``count`` elements, on a card of 132 processors of 2048 threads."""
    width, unroll = philox.grid_width(count, 132, 2048), 2 if wide else 4
    found = []
    for at in range(count):
        turn, rest = divmod(at, width * unroll)
        part, thread = divmod(rest, width)
        low, high = (offset // 4 + turn) & MASK, (offset // 4 + turn) >> 32
        four = words((low, high, thread, 0), (seed & MASK, seed >> 32))
        found.append(
            (four[2 * part] << 32) | four[2 * part + 1] if wide else four[part]
        )
    return np.array(found, dtype=np.uint64)


def test_the_first_numbers_of_seed_0_are_those_that_pytorch_shows_on_a_card():
    assert rl.rand(4, device="cuda").tolist() == pytest.approx(
        [0.3990, 0.5167, 0.0249, 0.9401], abs=5e-5
    )
    rl.cuda.manual_seed(0)
    assert rl.randn(4, device="cuda").tolist() == pytest.approx(
        [-0.9247, -0.4253, -2.6438, 0.1452], abs=5e-5
    )


@pytest.mark.parametrize("count", [1, 255, 1000, 1025])
@pytest.mark.parametrize("seed", [0, 123, (1 << 63) + 5])
def test_each_element_has_the_word_of_its_thread(count, seed):
    rl.cuda.manual_seed(seed)
    for turn in range(2):
        found = rl.rand(count, device="cuda").cpu().numpy()
        drawn = stream(count, seed, 4 * turn).astype(np.float32)
        wanted = drawn * np.float32(2.0**-32) + np.float32(2.0**-33)
        np.testing.assert_array_equal(found, np.where(wanted == 1, 0, wanted))


def test_more_elements_than_the_grid_has_threads_take_further_steps():
    count = 4 * 132 * 2048 + 3  # one step of every thread, and a little
    found = rl.empty(count, dtype=rl.int64, device="cuda").random_(0, 1000)
    generator = rl.backends.backend_for("cuda").generator(found.device)
    assert generator.get_offset() == 8
    last = words((1, 0, 2, 0), (0, 0))[0]
    assert found[-1].item() == last % 1000


def test_integers_are_remainders_of_words():
    found = rl.randint(-5, 12, (500,), device="cuda").cpu().numpy()
    np.testing.assert_array_equal(found, stream(500, 0, 0) % 17 - 5.0)
    for low, high in ((0, 1 << 40), (-(1 << 62), 1 << 62), (-(1 << 63), (1 << 63) - 1)):
        rl.cuda.manual_seed(0)
        found = rl.randint(low, high, (300,), device="cuda").tolist()
        drawn = stream(300, 0, 0, wide=True).tolist()
        assert found == [word % (high - low) + low for word in drawn]


def test_generators_of_ones_own_have_their_place_in_the_stream():
    generator = rl.Generator("cuda").manual_seed(0)
    first = rl.rand(5, device="cuda", generator=generator)
    assert generator.get_offset() == 4
    generator.set_offset(0)
    assert rl.equal(first, rl.rand(5, device="cuda", generator=generator))
    with pytest.raises(RuntimeError, match="device type for generator but found 'cpu'"):
        rl.rand(5, device="cuda", generator=rl.Generator())


def test_states_bring_numbers_back():
    state = rl.cuda.get_rng_state()
    first = rl.randn(10, device="cuda")
    rl.cuda.set_rng_state(state)
    assert rl.equal(first, rl.randn(10, device="cuda"))


def test_laws_have_their_means():
    n = 4000

    def like():
        return rl.empty(n, device="cuda")

    for drawn, mean, spread in (
        (like().exponential_(2.0), 0.5, 0.5),
        (like().bernoulli_(0.25), 0.25, 0.44),
        (like().geometric_(0.5), 2.0, 1.5),
        (like().normal_(3, 2), 3.0, 2.0),
        (like().uniform_(-1, 3), 1.0, 1.2),
        (rl.nn.functional.dropout(rl.ones(n, device="cuda"), 0.25), 1.0, 0.6),
        (rl.bernoulli(rl.full((n,), 0.7, device="cuda")), 0.7, 0.5),
    ):
        assert abs(drawn.mean().item() - mean) < 5 * spread / n**0.5
    places = rl.randperm(300, device="cuda")
    assert sorted(places.tolist()) == list(range(300))


def test_masks_in_place_and_of_channels_are_bernoulli_numbers_in_their_order():
    x = rl.ones(4, 4, 6, device="cuda")
    for function, shape in (
        (lambda: F.dropout(x.clone(), 0.5, inplace=True), (4, 4, 6)),
        (lambda: F.dropout1d(x, 0.5), (4, 4, 1)),
    ):
        rl.cuda.manual_seed(3)
        found = function()
        rl.cuda.manual_seed(3)
        kept = rl.empty(shape, device="cuda").bernoulli_(0.5)
        assert rl.equal(found.cpu(), (kept * 2).expand(4, 4, 6).cpu())


def test_a_dropout_and_its_operator_with_a_mask_draw_the_same():
    x = rl.ones(40, device="cuda")
    rl.cuda.manual_seed(3)
    found = F.dropout(x, 0.25)
    rl.cuda.manual_seed(3)
    other, kept = rl.native_dropout(x, 0.25, True)
    assert rl.equal(found, other) and rl.equal(found != 0, kept)
    leaf = x.clone().requires_grad_()
    assert F.dropout(leaf, 0.25).grad_fn.name() == "NativeDropoutBackward0"


@pytest.mark.parametrize("count, itemsize", [(24, 2), (20, 2), (6, 2), (7, 2), (6, 4)])
def test_a_dropout_keeps_what_threads_of_several_neighbours_would(count, itemsize):
    dtype = {2: rl.float16, 4: rl.float32}[itemsize]
    found = F.dropout(rl.ones(count, device="cuda", dtype=dtype), 0.5).cpu() != 0
    each = next(n for n in (16 // itemsize, 4, 2, 1) if count % n == 0)
    wanted = []
    for at in range(count):
        thread, place = (at, 0) if each == 1 else divmod(at, each)
        word = words((place // 4, 0, thread, 0), (0, 0))[place % 4]
        wanted.append(word * 2.0**-32 + 2.0**-33 < 0.5)
    assert found.tolist() == wanted


def test_chances_of_their_own_are_met_by_threads_of_four_neighbours():
    found = rl.bernoulli(rl.full((10,), 0.4, device="cuda")).tolist()
    drawn = [words((0, 0, at // 4, 0), (0, 0))[at % 4] for at in range(10)]
    assert found == [float(word * 2.0**-32 + 2.0**-33 <= 0.4) for word in drawn]
    generator = rl.backends.backend_for("cuda").generator(
        rl.empty(0, device="cuda").device
    )
    assert generator.get_offset() == 12


def permuted(count, bits):
    """PyTorch's `randperm` of few elements, whose keys have so many bits."""
    drawn = stream(count, 0, 0, wide=True).tolist()
    keys = [(word % ((1 << 32) - 1) - (1 << 31)) & ((1 << bits) - 1) for word in drawn]
    places = sorted(range(count), key=lambda place: keys[place])
    keys.sort()
    for first in range(count):
        same = keys.count(keys[first])
        if same == 1 or (first and keys[first - 1] == keys[first]):
            continue
        for turn, last in enumerate(range(same - 1, 0, -1)):
            at = 4 + turn  # the stream has gone on by the keys' step
            other = words((at // 4, 0, first, 0), (0, 0))[at % 4] % (last + 1)
            a, b = first + last, first + other
            places[a], places[b] = places[b], places[a]
    return places


@pytest.mark.parametrize("count, bits", [(5, 7), (100, 16), (700, 22)])
def test_a_permutation_sorts_keys_of_few_bits_and_shuffles_equal_ones(count, bits):
    assert rl.randperm(count, device="cuda").tolist() == permuted(count, bits)


def test_ends_of_a_range_are_those_that_pytorch_leaves_out():
    for dtype in (rl.float16, rl.float32, rl.float64):
        x = rl.empty(4096, device="cuda", dtype=dtype).uniform_(-1, 1).cpu()
        assert x.min() >= -1 and x.max() < 1


def test_one_seed_is_all_devices_seed_also_of_those_first_used_later(machine):
    rl.manual_seed(11)
    machine.start(cards=2, memory=1 << 27)
    first = [rl.rand(50, device=f"cuda:{n}").cpu() for n in range(2)]
    assert rl.equal(*first)
    assert rl.cuda.initial_seed() == 11
    rl.manual_seed(11)
    assert rl.equal(rl.rand(50, device="cuda:1").cpu(), first[1])
    chosen = rl.seed()
    assert rl.cuda.initial_seed() == chosen == rl.initial_seed()
    rl.default_generator.manual_seed(5)
    assert rl.cuda.initial_seed() == chosen, "a generator's own seed is its own"


def halves(x):
    return F.dropout((x * 3).tanh(), 0.5)


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_part_that_is_computed_again_draws_the_same_numbers(machine, reentrant):
    x = rl.linspace(-1, 1, 64, device="cuda").requires_grad_()
    rl.manual_seed(0)
    halves(x).sum().backward()
    after, wanted, x.grad = rl.rand(2, device="cuda").tolist(), x.grad.tolist(), None
    rl.manual_seed(0)
    rl.utils.checkpoint.checkpoint(halves, x, use_reentrant=reentrant).sum().backward()
    assert x.grad.tolist() == wanted
    assert rl.rand(2, device="cuda").tolist() == after  # and the stream goes on


@pytest.mark.parametrize("devices", [None, [0], ["cuda"], [rl.device("cuda", 0)]])
def test_a_forked_generator_is_restored(machine, devices):
    rl.manual_seed(3)
    rl.rand(2, device="cuda")
    state = rl.cuda.get_rng_state()
    with rl.random.fork_rng(devices):
        rl.manual_seed(4)
        rl.rand(2, device="cuda")
    assert rl.equal(rl.cuda.get_rng_state(), state)


def test_generators_of_devices_that_are_not_named_go_on(machine):
    rl.manual_seed(3)
    state = rl.cuda.get_rng_state()
    with rl.random.fork_rng([]):
        rl.rand(2, device="cuda")
    assert not rl.equal(rl.cuda.get_rng_state(), state)
