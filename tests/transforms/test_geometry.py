"""Images are cut, turned and resized to the very bytes that torchvision makes."""

import zlib

import numpy as np
import pytest

import rushlight as rl
from rushlight import transforms as t
from tests.transforms.pictures import inputs

# What each makes of three images in turn after seed 3, as a checksum of torchvision's
# 0.15.2 bytes: of a Pillow image, and of a tensor of bytes.
MADE = {
    "resize20": (lambda: t.Resize(20), 1105412859, 1004610303),
    "resize2": (lambda: t.Resize((50, 17)), 2936522485, 446384129),
    "resizen": (lambda: t.Resize(16, "nearest"), 2774623992, 2770231718),
    "resizec": (lambda: t.Resize((20, 45), "bicubic"), 1679930400, 4249265156),
    "resizemax": (lambda: t.Resize(20, max_size=22), 1570970033, 2585258640),
    "cc": (lambda: t.CenterCrop(20), 2553271059, 3449907207),
    "cc2": (lambda: t.CenterCrop((40, 31)), 406623850, 262349987),
    "pad": (lambda: t.Pad((1, 2)), 1832448882, 4260064575),
    "pad4": (lambda: t.Pad((1, 2, 3, 4), fill=5), 2638362846, 2290495727),
    "pade": (lambda: t.Pad(3, padding_mode="edge"), 1134719391, 2167978944),
    "padr": (lambda: t.Pad(3, padding_mode="reflect"), 62188837, 3815642663),
    "pads": (lambda: t.Pad(3, padding_mode="symmetric"), 2476304205, 100187455),
    "rc": (lambda: t.RandomCrop(20, padding=4), 3297529421, 1692314007),
    "rcn": (lambda: t.RandomCrop((40, 20), pad_if_needed=True), 1074666903, 3424351957),
    "rrc": (lambda: t.RandomResizedCrop(18), 767298046, None),
    "hf": (lambda: t.RandomHorizontalFlip(), 2941795409, 2696782383),
    "vf": (lambda: t.RandomVerticalFlip(0.9), 102403205, 1061561098),
    "g1": (lambda: t.Grayscale(), 1131894015, 3391102067),
    "g3": (lambda: t.Grayscale(3), 254099683, 414948950),
    "er": (lambda: t.RandomErasing(1.0), None, 1618490788),
    "err": (lambda: t.RandomErasing(1.0, value="random"), None, 4068750333),
}


@pytest.mark.parametrize("kind", ["Pillow image", "tensor"])
@pytest.mark.parametrize("case", MADE)
def test_the_bytes_are_those_of_torchvision(case, kind):
    make, *sums = MADE[case]
    place = ["Pillow image", "tensor"].index(kind)
    if sums[place] is None:
        pytest.skip("no such form, or torchvision rounds one of the bytes another way")
    rl.manual_seed(3)
    transform, image = make(), inputs()[place]
    made = [transform(image) for _ in range(3)]
    arrays = [np.asarray(one if place == 0 else one.numpy()) for one in made]
    found = b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)
    assert zlib.crc32(found) == sums[place]
    assert type(transform).__name__ in repr(transform)


@pytest.mark.parametrize("case", MADE)
def test_floats_come_out_as_floats_of_the_same_sizes(case):
    make, *_ = MADE[case]
    image = inputs()[1]
    sizes = []
    for one in image, image.float().div(255):
        rl.manual_seed(3)
        sizes.append(make()(one).shape)
    assert sizes[0] == sizes[1]


def test_transforms_are_done_together_or_not_at_all():
    image = rl.arange(6.0).view(1, 2, 3)
    both = t.RandomApply([t.RandomHorizontalFlip(1), t.RandomVerticalFlip(1)], p=1.0)
    assert both(image).tolist() == [[[5, 4, 3], [2, 1, 0]]]
    assert t.RandomApply([t.RandomHorizontalFlip(1)], p=0.0)(image) is image


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: t.RandomCrop(9)(rl.ones(1, 3, 3)), "larger than input image size"),
        (lambda: t.Pad((1, 2, 3))(rl.ones(1, 3, 3)), "1, 2, or 4 element tuple"),
        (lambda: t.Pad(1, padding_mode="odd"), "either constant, edge"),
        (lambda: t.Resize((1, 2, 3)), "1 or 2 values"),
        (lambda: t.Resize(5, max_size=5)(rl.ones(1, 3, 9)), "strictly greater"),
        (lambda: t.CenterCrop((1, 2, 3)), "only two dimensions"),
        (lambda: t.RandomErasing(2), "between 0 and 1"),
    ],
    ids=range(7),
)
def test_sizes_that_make_no_sense_are_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_what_is_no_image_is_refused():
    with pytest.raises(TypeError, match="Unexpected type"):
        t.CenterCrop(3)([1, 2])
