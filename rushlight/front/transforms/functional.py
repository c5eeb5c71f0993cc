"""What the transforms do, as functions with every number given.

Images are tensors (…, C, H, W) or Pillow's, and come out as what they were.
"""

import rushlight as rl
from rushlight.transforms import geometry
from rushlight.transforms.affine import affine, rotate
from rushlight.transforms.choices import FiveCrop, TenCrop
from rushlight.transforms.colours import (
    adjust_brightness,
    adjust_contrast,
    adjust_gamma,
    adjust_hue,
    adjust_saturation,
    adjust_sharpness,
    autocontrast,
    equalize,
    gaussian_blur,
    invert,
    posterize,
    solarize,
)
from rushlight.transforms.elastic import elastic_transform, perspective
from rushlight.transforms.geometry import (
    center_crop,
    crop,
    erase,
    rgb_to_grayscale,
    size_of,
    sizes_of,
)
from rushlight.transforms.modes import InterpolationMode, mode_of
from rushlight.transforms.transforms import (
    convert_image_dtype,
    normalize,
    pil_to_tensor,
    to_pil_image,
    to_tensor,
)

__all__ = [
    "InterpolationMode",
    "adjust_brightness",
    "adjust_contrast",
    "adjust_gamma",
    "adjust_hue",
    "adjust_saturation",
    "adjust_sharpness",
    "affine",
    "autocontrast",
    "center_crop",
    "convert_image_dtype",
    "crop",
    "elastic_transform",
    "equalize",
    "erase",
    "five_crop",
    "gaussian_blur",
    "get_dimensions",
    "get_image_num_channels",
    "get_image_size",
    "hflip",
    "invert",
    "normalize",
    "pad",
    "perspective",
    "pil_to_tensor",
    "posterize",
    "resize",
    "resized_crop",
    "rgb_to_grayscale",
    "rotate",
    "solarize",
    "ten_crop",
    "to_grayscale",
    "to_pil_image",
    "to_tensor",
    "vflip",
]


def get_image_num_channels(img) -> int:
    """How many channels an image has.

    >>> from rushlight.transforms.functional import get_image_num_channels
    >>> get_image_num_channels(rl.zeros(3, 8, 9)), get_image_num_channels(rl.zeros(8, 9))
    (3, 1)
    """
    size_of(img)  # refuses what is no img
    if isinstance(img, rl.Tensor):
        return img.shape[-3] if img.dim() > 2 else 1
    return len(img.getbands())


def get_image_size(img) -> list[int]:
    """An image's width and height."""
    height, width = size_of(img)
    return [width, height]


def get_dimensions(img) -> list[int]:
    """An image's channels, height and width."""
    return [get_image_num_channels(img), *size_of(img)]


def resize(
    img,
    size,
    interpolation=InterpolationMode.BILINEAR,
    max_size: int | None = None,
    antialias: bool | None = True,
):
    """An image of another size.

    Args:
        img: the image.
        size: height and width; one number is the shorter side's, in proportion.
        interpolation: how pixels between pixels are made up.
        max_size: the longer side is at most so long.
        antialias: tensors are smoothed as they shrink; Pillow images are anyway.

    Raises:
        ValueError: the size has more than two numbers.

    >>> from rushlight.transforms.functional import resize
    >>> resize(rl.zeros(3, 8, 16), 4).shape
    rushlight.Size([3, 4, 8])
    """
    if not isinstance(size, int) and len(size) not in (1, 2):
        raise ValueError(
            "Size must be an int or a 1 or 2 element tuple/list, not a "
            f"{len(size)} element tuple/list"
        )
    sizes = sizes_of(img, size, max_size)
    return geometry.resize(img, *sizes, mode_of(interpolation).value, antialias)


def resized_crop(
    img,
    top: int,
    left: int,
    height: int,
    width: int,
    size,
    interpolation=InterpolationMode.BILINEAR,
    antialias: bool | None = True,
):
    """A part of an image, resized."""
    part = crop(img, top, left, height, width)
    return resize(part, size, interpolation, antialias=antialias)


def pad(img, padding, fill=0, padding_mode: str = "constant"):
    """An image with more around it.

    Args:
        img: the image.
        padding: for all sides; or left and right, above and below; or one by one: left,
            above, right, below.
        fill: with what.
        padding_mode: ``constant``, ``edge``, ``reflect`` or ``symmetric``.
    """
    return geometry.Pad(padding, 0 if fill is None else fill, padding_mode)(img)


def hflip(img):
    """An image turned from left to right."""
    return geometry.flip(img, -1)


def vflip(img):
    """An image turned upside down."""
    return geometry.flip(img, -2)


def five_crop(img, size):
    """The corners of an image and its middle, as a tuple."""
    return FiveCrop(size)(img)


def ten_crop(img, size, vertical_flip: bool = False):
    """The corners of an image and its middle, and the same of its mirror image."""
    return TenCrop(size, vertical_flip)(img)


def to_grayscale(img, num_output_channels: int = 1):
    """A Pillow image without colours, in one channel or three of the same.

    Raises:
        TypeError: it is no Pillow image.
    """
    if isinstance(img, rl.Tensor):
        raise TypeError("Input should be PIL Image")
    return rgb_to_grayscale(img, num_output_channels)
