"""Images are coloured, blurred and turned to the very bytes that torchvision makes."""

import random
import zlib

import numpy as np
import pytest

import rushlight as rl
from rushlight import transforms as t
from tests.transforms.pictures import inputs

# What each makes of three images in turn after seed 3, as a checksum of torchvision's
# 0.15.2 bytes: of a Pillow image, and of a tensor of bytes.
MADE = {
    "jit": (lambda: t.ColorJitter(0.4, 0.4, 0.4, (0, 0.3)), 2379404728, 2821839745),
    "jitb": (lambda: t.ColorJitter(brightness=(0.5, 1.5)), 3973143355, 882726493),
    "jitc": (lambda: t.ColorJitter(contrast=0.6), 1031273452, 43174303),
    "jits": (lambda: t.ColorJitter(saturation=0.7), 4050488476, 2425612880),
    "jith": (lambda: t.ColorJitter(hue=(0, 0.5)), 1075110917, 484560268),
    "rg": (lambda: t.RandomGrayscale(0.7), 254099683, 414948950),
    "inv": (lambda: t.RandomInvert(0.7), 1649300208, 591161496),
    "post": (lambda: t.RandomPosterize(3, 0.7), 3085310031, 3424226493),
    "sol": (lambda: t.RandomSolarize(120, 0.7), 848020290, 361993186),
    "sharp": (lambda: t.RandomAdjustSharpness(2.5, 0.7), 1173532288, 1224809201),
    "blunt": (lambda: t.RandomAdjustSharpness(0.3, 1.0), 3724657499, 356345989),
    "auto": (lambda: t.RandomAutocontrast(0.7), 1559109334, 244739673),
    "equ": (lambda: t.RandomEqualize(0.7), 2479053114, 3241983379),
    "blur": (lambda: t.GaussianBlur((5, 3)), 3415843261, 1225586938),
    "blur2": (lambda: t.GaussianBlur(7, 1.5), 717010967, 2405532799),
    "rot": (lambda: t.RandomRotation(40), 4129431295, 3223403813),
    "rotb": (
        lambda: t.RandomRotation((10, 80), "bilinear", True, fill=7),
        2174967376,
        1679861441,
    ),
    "rotc": (
        lambda: t.RandomRotation(40, center=(3, 5), fill=(1, 2, 3)),
        3602383683,
        2507667969,
    ),
    "aff": (
        lambda: t.RandomAffine(30, (0.2, 0.1), (0.7, 1.3), 20),
        2589376826,
        3478937826,
    ),
    "affb": (
        lambda: t.RandomAffine(
            (0, 90), shear=(-10, 10, -20, 20), interpolation="bilinear", fill=9
        ),
        321351824,
        1451665072,
    ),
    "rot0": (lambda: t.RandomRotation(50, "bilinear"), 3211752019, 2048146575),
    "five": (lambda: t.FiveCrop((10, 13)), 793958452, 853958609),
    "ten": (lambda: t.TenCrop(12, True), 2990218960, 3713365693),
    "cho": (
        lambda: t.RandomChoice([t.RandomInvert(1.0), t.CenterCrop(9)], [0.3, 0.7]),
        1511978947,
        4262359587,
    ),
    "ord": (
        lambda: t.RandomOrder(
            [t.RandomInvert(1.0), t.CenterCrop(20), t.RandomPosterize(2, 1.0)]
        ),
        1490446967,
        3731742529,
    ),
}


@pytest.mark.parametrize("kind", ["Pillow image", "tensor"])
@pytest.mark.parametrize("case", MADE)
def test_the_bytes_are_those_of_torchvision(case, kind):
    make, *sums = MADE[case]
    place = ["Pillow image", "tensor"].index(kind)
    rl.manual_seed(3)
    random.seed(3)
    transform, image, made = make(), inputs()[place], []
    for _ in range(3):
        found = transform(image)
        made += found if isinstance(found, tuple) else [found]
    arrays = [np.asarray(one if place == 0 else one.numpy()) for one in made]
    found = b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)
    assert zlib.crc32(found) == sums[place]
    assert type(transform).__name__ in repr(transform)


FLOATS = sorted(set(MADE) - {"post", "equ", "sol", "ord"})


@pytest.mark.parametrize("case", FLOATS)
def test_floats_are_what_bytes_are_as_shares(case):
    make, *_ = MADE[case]
    image = inputs()[1]
    results = []
    for one in image, image.double() / 255:
        rl.manual_seed(3)
        random.seed(3)
        made = make()(one)
        results.append(made[-1] if isinstance(made, tuple) else made)
    whole, shares = results
    if case in ("rotb", "affb", "rotc"):  # their colours outside are numbers of bytes
        assert whole.shape == shares.shape
    else:
        assert (whole.double() - shares * 255).abs().max() < 6


def test_a_grey_picture_is_turned_with_one_colour_around_it():
    grey = inputs()[0].convert("L")
    turned = t.functional.rotate(grey, 45, expand=True, fill=7)
    same = t.functional.rotate(grey, 45, expand=True, fill=[7])
    assert turned.mode == "L" and turned.getpixel((0, 0)) == 7
    assert turned.tobytes() == same.tobytes()


def test_a_batch_of_images_is_turned_like_one():
    images = rl.rand(2, 3, 8, 9)
    rl.manual_seed(0)
    both = t.RandomRotation(90, fill=0.5)(images)
    for one, found in zip(images, both):
        rl.manual_seed(0)
        assert rl.equal(t.RandomRotation(90, fill=0.5)(one), found)


def test_images_are_whitened():
    images, matrix = rl.rand(4, 1, 2, 2), rl.eye(4) * 2
    found = t.LinearTransformation(matrix, rl.full((4,), 0.5))(images)
    assert rl.allclose(found, images * 2 - 1)


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: t.ColorJitter(brightness=-1), "must be non negative"),
        (lambda: t.ColorJitter(hue=0.7), "should be between"),
        (lambda: t.GaussianBlur(4), "odd and positive"),
        (lambda: t.GaussianBlur(3, 0), "must be positive"),
        (lambda: t.RandomRotation(-3), "must be positive"),
        (lambda: t.RandomAffine(3, (2, 0)), "between 0 and 1"),
        (lambda: t.RandomAffine(3, scale=(0, 1)), "should be positive"),
        (lambda: t.FiveCrop(9)(rl.ones(1, 3, 3)), "bigger than input size"),
        (lambda: t.RandomRotation(3, fill=(1, 2))(rl.ones(3, 3, 3)), "does not match"),
        (lambda: t.LinearTransformation(rl.ones(2, 3), rl.ones(2)), "square"),
    ],
    ids=range(10),
)
def test_settings_that_make_no_sense_are_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()


@pytest.mark.parametrize(
    "transform", [t.RandomPosterize(2, 1.0), t.RandomEqualize(1.0)]
)
def test_what_needs_bytes_refuses_floats(transform):
    with pytest.raises(TypeError, match="Only torch.uint8"):
        transform(rl.rand(3, 4, 4))
