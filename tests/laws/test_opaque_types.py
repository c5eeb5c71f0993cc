"""Types without arithmetic are stored, viewed and moved bit by bit, and refuse the rest."""

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")

NARROW = [f"{sign}int{bits}" for sign in ("", "u") for bits in range(1, 8)]
NAMES = [*NARROW, "bits1x8", "bits2x4", "bits4x2", "bits8", "bits16"]
WORDS = {name: name.capitalize().replace("Uint", "UInt") for name in NAMES}


def pair(name):
    return getattr(rl, name), getattr(torch, name)


def bytes_as(dtype, count=12):
    return rl.arange(count, dtype=rl.uint8).view(dtype)


@pytest.mark.parametrize("name", NAMES)
def test_facts_of_the_type_are_pytorchs(name):
    ours, theirs = pair(name)
    assert ours.itemsize == theirs.itemsize
    assert not ours.is_floating_point and not ours.is_complex
    if name in NARROW:
        assert ours.is_signed == theirs.is_signed
    assert repr(ours) == f"rushlight.{name}"
    assert rl.empty(2, dtype=ours).type() == torch.empty(2, dtype=theirs).type()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "move",
    [
        lambda x: x.clone(),
        lambda x: x[::2].contiguous(),
        lambda x: rl.cat([x, x]),
        lambda x: rl.stack([x, x]),
        lambda x: rl.empty_like(x).copy_(x),
        lambda x: x.repeat(2),
    ],
    ids=["clone", "contiguous", "cat", "stack", "copy_", "repeat"],
)
def test_moves_keep_every_bit(name, move):
    dtype = getattr(rl, name)
    bits = rl.int16 if dtype.itemsize == 2 else rl.uint8
    moved = move(bytes_as(dtype))
    assert moved.dtype is dtype
    assert moved.view(bits).tolist() == move(bytes_as(bits)).tolist()


@pytest.mark.parametrize("name", NAMES)
def test_numbers_are_refused_in_pytorchs_words(name):
    ours, theirs = pair(name)
    word = f"not implemented for '{WORDS[name]}'"
    for lib, dtype in ((rl, ours), (torch, theirs)):
        x = lib.empty(3, dtype=dtype)
        single = lib.float32
        for call in (
            lambda x, _: x + x,
            lambda x, _: x.sum(),
            lambda x, kind: x.to(kind),
            lambda x, _: x.fill_(1),
            lambda x, _: x[0].item(),
        ):
            with pytest.raises(NotImplementedError, match=word):
                call(x, single)
        with pytest.raises(NotImplementedError, match=word):
            lib.zeros(3, dtype=lib.uint8).to(dtype)
        with pytest.raises(TypeError, match=f"unsupported ScalarType {WORDS[name]}"):
            x.numpy()


def test_one_bit_has_its_short_name():
    assert rl.bit is rl.uint1
