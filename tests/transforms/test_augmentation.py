"""Drawn changes of images are torchvision's, draw by draw and picture by picture."""

import zlib

import numpy as np
import pytest

import rushlight as rl
from rushlight import transforms as t
from rushlight.transforms import functional as F
from tests.transforms.pictures import inputs

Image = pytest.importorskip("PIL.Image")
I, P = t.InterpolationMode, t.AutoAugmentPolicy

# For each, what torchvision 0.15.2 leaves of the stream of random numbers after six
# images (the next number), and what it makes of a Pillow image and of a tensor: the
# checksum of the six, or the sum of each where a pixel on a border may round either way.
MADE = {
    "auto": (lambda: t.AutoAugment(), 0.26088, 2463436417, 3451493791),
    "autoc": (
        lambda: t.AutoAugment(P.CIFAR10, I.BILINEAR, fill=(1, 2, 3)),
        0.26088,
        4069395341,
        2285457483,
    ),
    "autos": (lambda: t.AutoAugment(P.SVHN, fill=7), 0.26088, 4116652644, 3152967114),
    "rand": (lambda: t.RandAugment(), 0.847319, 631615218, 1285107566),
    "rand3": (
        lambda: t.RandAugment(4, 20, 31, I.BILINEAR, [9.0]),
        0.004324,
        None,
        [295848, 49162, 424776, 187641, 317394, 415808],
    ),
    "triv": (lambda: t.TrivialAugmentWide(), 0.149841, 2128804509, 1912958418),
    "trivb": (
        lambda: t.TrivialAugmentWide(interpolation=I.BILINEAR, fill=3),
        0.149841,
        [404315, 393096, 313509, 282622, 327803, 429084],
        [407957, 396752, 317038, 285181, 330083, 429072],
    ),
    "mix": (
        lambda: t.AugMix(),
        0.844833,
        [402744, 399702, 386087, 398850, 387924, 383648],
        [406270, 403458, 389137, 402120, 391347, 387702],
    ),
    "mix2": (
        lambda: t.AugMix(9, 2, 4, 0.5, False, I.NEAREST, 4),
        0.493261,
        [314672, 391945, 298399, 384006, 402827, 306985],
        [317619, 392804, 301667, 389079, 407957, 309873],
    ),
    "mix3": (
        lambda: t.AugMix(5, 4, 2, interpolation=I.NEAREST),
        0.266004,
        [388549, 348796, 367596, 361164, 378551, 323399],
        [392039, 352215, 371135, 364753, 382296, 327264],
    ),
    "persp": (
        lambda: t.RandomPerspective(0.6, 1.0),
        0.821218,
        [181591, 175526, 211943, 212901, 163127, 145580],
        [176050, 173149, 213287, 211702, 162770, 144883],
    ),
    "persp2": (
        lambda: t.RandomPerspective(0.3, 0.7, I.NEAREST, (5, 6, 7)),
        0.265906,
        [278856, 404303, 321390, 404303, 307292, 352433],
        [280326, 407945, 326488, 407945, 310277, 355808],
    ),
    "perspb": (
        lambda: t.RandomPerspective(0.9, 1.0, I.BILINEAR, 8),
        0.821218,
        [208310, 153541, 202444, 169433, 87453, 165330],
        [204204, 154501, 199672, 164357, 84715, 161963],
    ),
    "ela": (
        lambda: t.ElasticTransform(30.0, 2.0),
        0.319245,
        [375576, 370476, 379398, 367478, 376907, 385820],
        [381172, 366248, 376044, 369100, 381621, 382613],
    ),
    "ela2": (
        lambda: t.ElasticTransform([50.0, 10.0], [1.0, 3.0], I.NEAREST, fill=9),
        0.319245,
        3950798908,
        3762747719,
    ),
    "ela3": (
        lambda: t.ElasticTransform(40.0, 0.0, fill=(1, 2, 3)),
        0.319245,
        [193287, 194615, 198204, 189988, 197351, 201678],
        [193186, 195933, 204411, 192249, 201030, 206042],
    ),
}


@pytest.mark.parametrize("kind", ["Pillow image", "tensor"])
@pytest.mark.parametrize("case", MADE)
def test_the_pictures_and_the_stream_are_those_of_torchvision(case, kind):
    make, following, *wanted = MADE[case]
    place = ["Pillow image", "tensor"].index(kind)
    rl.manual_seed(3)
    transform, image = make(), inputs()[place]
    made = [transform(image) for _ in range(6)]
    assert rl.rand(1).item() == pytest.approx(following, abs=1e-6)
    arrays = [np.asarray(one if place == 0 else one.numpy()) for one in made]
    if isinstance(wanted[place], int):
        found = b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)
        assert zlib.crc32(found) == wanted[place]
    elif wanted[place] is not None:  # torchvision refuses one number for three channels
        sums = [int(array.sum()) for array in arrays]
        assert sums == pytest.approx(wanted[place], rel=0.015)
    assert type(transform).__name__ in repr(transform)


@pytest.mark.parametrize("case", MADE)
def test_a_batch_of_images_is_changed_like_one(case):
    if case.startswith("mix"):
        pytest.skip("every image of a batch is mixed in its own shares")
    make, image = MADE[case][0], inputs()[1]
    rl.manual_seed(5)
    one = make()(image)
    rl.manual_seed(5)
    both = make()(rl.stack([image, image.flip(-1)]))
    assert rl.equal(both[0], one) and both.shape == (2, 3, 37, 29)


def test_transforms_are_modules_and_stand_among_them():
    steps = rl.nn.Sequential(t.CenterCrop(4), t.ConvertImageDtype(rl.float32))
    assert steps(rl.zeros(3, 8, 8, dtype=rl.uint8)).shape == (3, 4, 4)
    assert isinstance(t.RandAugment(), rl.nn.Module)


def test_a_corner_goes_where_it_is_told():
    image = rl.zeros(1, 5, 5)
    image[0, 0, 0] = 1.0
    square = [[0, 0], [5, 0], [5, 5], [0, 5]]
    turned = F.perspective(image, square, square[1:] + square[:1])
    assert turned[0, 0, 4] == pytest.approx(1, abs=1e-4)
    assert rl.allclose(F.perspective(image, square, square), image, atol=1e-4)


def test_no_displacement_changes_nothing():
    image = inputs()[1]
    assert rl.equal(F.elastic_transform(image, rl.zeros(1, 37, 29, 2)), image)
    one_pixel = rl.tensor([2 / 29, 0.0]).expand(1, 37, 29, 2)
    moved = F.elastic_transform(image, one_pixel, I.NEAREST)
    assert rl.equal(moved[..., :-1], image[..., 1:])


@pytest.mark.parametrize("mode", ["edge", "symmetric", "reflect", "constant"])
def test_negative_edges_take_away(mode):
    picture, tensor = inputs()[0], t.PILToTensor()(inputs()[0])
    cut = F.pad(picture, [-2, 1, -3, 4], padding_mode=mode)
    assert rl.equal(t.PILToTensor()(cut), F.pad(tensor, [-2, 1, -3, 4], 0, mode))


def test_colours_of_other_kinds_become_pictures():
    bytes_ = inputs()[1]
    for mode in ("YCbCr", "HSV", "RGB"):
        picture = t.ToPILImage(mode)(bytes_)
        assert picture.mode == mode
        assert rl.equal(t.PILToTensor()(picture), bytes_)
    depth = rl.tensor([[1, 70000]], dtype=rl.int32)
    assert F.to_pil_image(depth).mode == "I"
    assert rl.equal(F.pil_to_tensor(F.to_pil_image(depth)), depth[None])


def test_ranges_of_integers_are_kept():
    image = rl.tensor([0, 128, 255], dtype=rl.uint8)
    assert F.convert_image_dtype(image, rl.int32).tolist() == [0, 1 << 30, 255 << 23]
    back = F.convert_image_dtype(F.convert_image_dtype(image, rl.int16), rl.uint8)
    assert rl.equal(back, image)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: t.AutoAugment("imagenet"), ValueError, "not recognized"),
        (lambda: t.AugMix(severity=11), ValueError, "severity must be between"),
        (lambda: t.RandAugment(interpolation=9), ValueError, "number 9"),
        (lambda: t.RandAugment(interpolation=None), TypeError, "InterpolationMode"),
        (lambda: t.ElasticTransform(alpha=3), TypeError, "alpha should be float"),
        (lambda: t.ElasticTransform(sigma=[1.0] * 3), ValueError, "should be 2"),
        (lambda: t.RandomPerspective(fill="red"), TypeError, "Fill should be either"),
        (lambda: t.AutoAugment()(rl.rand(2, 8, 8, 8)), TypeError, "uint8"),
        (lambda: F.rotate(rl.ones(1, 3, 3), 3, I.BICUBIC), ValueError, "unsupported"),
        (lambda: F.adjust_gamma(rl.ones(1, 3, 3), -1), ValueError, "non-negative"),
        (lambda: F.gaussian_blur(rl.ones(1, 9, 9), 4), ValueError, "odd and positive"),
        (lambda: F.solarize(rl.ones(1, 2, 2), 2), TypeError, "less than bound"),
        (lambda: F.to_pil_image(rl.ones(5, 2, 2)), ValueError, "> 4 channels"),
        (lambda: F.to_pil_image(rl.ones(3, 2, 2), "L"), ValueError, "Only modes"),
        (lambda: F.to_grayscale(rl.ones(3, 2, 2)), TypeError, "PIL Image"),
        (
            lambda: F.convert_image_dtype(rl.ones(1), rl.int32),
            RuntimeError,
            "cannot be performed safely",
        ),
        (
            lambda: F.elastic_transform(rl.ones(1, 3, 3), rl.zeros(1, 2, 2, 2)),
            ValueError,
            "displacement shape",
        ),
    ],
    ids=range(17),
)
def test_what_makes_no_sense_is_refused(call, error, words):
    rl.manual_seed(1)
    with pytest.raises(error, match=words):
        for _ in range(20):  # not every policy needs bytes
            call()
