import numpy as np
import pytest

import rushlight as rl
from rushlight import transforms


def test_bytes_become_fractions_with_channels_first():
    array = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    image = transforms.ToTensor()(array)
    assert image.shape == (3, 2, 4)
    assert image.dtype is rl.float32
    assert image[1, 0, 0].item() == pytest.approx(1 / 255)
    assert image.is_contiguous()


def test_grey_images_get_one_channel():
    assert transforms.ToTensor()(rl.zeros(5, 4, dtype=rl.uint8)).shape == (1, 5, 4)
    assert transforms.PILToTensor()(np.zeros((5, 4), np.uint8)).dtype is rl.uint8


def test_pillow_images_go_both_ways():
    Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    picture = Image.fromarray(np.arange(12, dtype=np.uint8).reshape(3, 4))
    tensor = transforms.PILToTensor()(picture)
    assert tensor.tolist() == [np.asarray(picture).tolist()]
    back = transforms.ToPILImage()(transforms.ToTensor()(picture))
    assert (np.asarray(back) == np.asarray(picture)).all()


def test_normalizing_takes_a_number_for_each_channel():
    image = rl.ones(2, 1, 1)
    result = transforms.Normalize((0.5, 1.0), (0.5, 2.0))(image)
    assert result.flatten().tolist() == [1.0, 0.0]
    assert image.flatten().tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    "make, error, words",
    [
        (lambda: transforms.Normalize((0,), (0,)), ValueError, "division by zero"),
        (lambda: transforms.Normalize((0,), (1,))([1]), TypeError, "Tensor Image"),
        (
            lambda: transforms.Normalize((0,), (1,))(rl.ones(1, 1, 1, dtype=rl.uint8)),
            TypeError,
            "put ToTensor",
        ),
        (lambda: transforms.Normalize((0,), (1,))(rl.ones(1)), ValueError, "C, H, W"),
        (lambda: transforms.ToTensor()("x"), TypeError, "PIL Image or ndarray"),
        (lambda: transforms.ToTensor()(np.zeros(3)), ValueError, "2/3 dimensional"),
        (lambda: transforms.Lambda(3), TypeError, "should be callable"),
    ],
)
def test_what_is_no_image_is_named(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_types_convert_with_their_range():
    half = transforms.ConvertImageDtype(rl.float32)(rl.tensor([255], dtype=rl.uint8))
    assert half.tolist() == [1.0]
    assert transforms.ConvertImageDtype(rl.uint8)(half).tolist() == [255]


def test_a_composition_prints_its_parts():
    text = repr(transforms.Compose([transforms.ToTensor(), transforms.Normalize(0, 1)]))
    assert text == "Compose(\n    ToTensor()\n    Normalize(mean=0, std=1)\n)"
