"""The ways in which pixels between pixels are made up."""

from enum import Enum


class InterpolationMode(Enum):
    """How pixels between pixels are made up; the last three are Pillow's alone.

    >>> rl.transforms.InterpolationMode("bilinear")
    <InterpolationMode.BILINEAR: 'bilinear'>
    """

    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


# Pillow's numbers for them.
FILTERS = {
    "nearest": 0,
    "nearest-exact": 0,
    "lanczos": 1,
    "bilinear": 2,
    "bicubic": 3,
    "box": 4,
    "hamming": 5,
}


def mode_of(given) -> InterpolationMode:
    """The mode that is meant by a mode, its name or Pillow's number for it.

    Raises:
        TypeError: it is none of these.
        ValueError: there is no such name or number.

    >>> from rushlight.transforms.modes import mode_of
    >>> mode_of(3).value
    'bicubic'
    """
    if isinstance(given, str):
        return InterpolationMode(given)
    if isinstance(given, int):
        for name, number in FILTERS.items():
            if number == given:
                return InterpolationMode(name)
        raise ValueError(f"Pillow has no filter with the number {given}")
    # torchvision's own modes, too, under the launcher
    if isinstance(given, Enum) and given.value in FILTERS:
        return InterpolationMode(given.value)
    raise TypeError(
        "Argument interpolation should be a InterpolationMode or a corresponding Pillow "
        "integer constant"
    )
