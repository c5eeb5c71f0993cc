"""Transforms that turn, shift, scale and shear: Pillow images and tensors (…, H, W).

Matrices and draws are torchvision's, so that a seed gives the same pictures.
"""

import math
import numbers
from collections.abc import Sequence

import rushlight as rl
from rushlight.transforms.geometry import FILTERS, size_of, uniform
from rushlight.transforms.transforms import Transform


def _inverse(centre, angle, shift, scale, shear):
    """Two rows that say, for a place in the result, where in the image it comes from."""
    turn = math.radians(angle)
    sx, sy = (math.radians(each) for each in shear)
    a = math.cos(turn - sy) / math.cos(sy)
    b = -math.cos(turn - sy) * math.tan(sx) / math.cos(sy) - math.sin(turn)
    c = math.sin(turn - sy) / math.cos(sy)
    d = -math.sin(turn - sy) * math.tan(sx) / math.cos(sy) + math.cos(turn)
    rows = [each / scale for each in (d, -b, 0.0, -c, a, 0.0)]
    (x, y), (dx, dy) = centre, shift
    rows[2] += rows[0] * (-x - dx) + rows[1] * (-y - dy) + x
    rows[5] += rows[3] * (-x - dx) + rows[4] * (-y - dy) + y
    return rows


def _grown(rows, width, height):
    """Width and height of a picture that has room for all of a turned one."""
    corners = rl.tensor(
        [
            [-0.5 * width, -0.5 * height, 1.0],
            [-0.5 * width, 0.5 * height, 1.0],
            [0.5 * width, 0.5 * height, 1.0],
            [0.5 * width, -0.5 * height, 1.0],
        ]
    )
    turned = corners @ rl.tensor(rows).reshape(2, 3).T
    turned += rl.tensor([width * 0.5, height * 0.5])
    near = 1e-4  # a corner this close to a pixel's edge is on it
    least = ((turned.amin(0) / near).trunc() * near).floor()
    most = ((turned.amax(0) / near).trunc() * near).ceil()
    grown = most - least
    return int(grown[0]), int(grown[1])


def _warped(image, rows, width, height, mode, fill):
    """A tensor's numbers at the places that two rows tell, ``fill`` outside of it."""
    own_height, own_width = size_of(image)
    kind = image.dtype if image.is_floating_point() else rl.float32
    theta = rl.tensor(rows, dtype=kind).reshape(2, 3)
    base = rl.ones(height, width, 3, dtype=kind)
    base[..., 0] = rl.linspace(-width * 0.5 + 0.5, width * 0.5 - 0.5, width)
    base[..., 1] = rl.linspace(-height * 0.5 + 0.5, height * 0.5 - 0.5, height)[:, None]
    half = rl.tensor([0.5 * own_width, 0.5 * own_height], dtype=kind)
    grid = (base.reshape(-1, 3) @ (theta.T / half)).reshape(1, height, width, 2)
    *front, _, _ = image.shape
    stack = image.reshape(1, -1, own_height, own_width).to(kind)
    # One channel more tells how much of a pixel lies inside of the image.
    stack = rl.cat([stack, rl.ones_like(stack[:, :1])], 1)
    made = rl.nn.functional.grid_sample(stack, grid, mode, "zeros", False)
    made, mask = made[:, :-1], made[:, -1:]
    colours = rl.tensor(fill, dtype=kind).repeat(math.prod(front[:-1]))
    colours = colours.reshape(1, -1, 1, 1)
    if mode == "nearest":
        made = rl.where(mask < 0.5, colours.expand_as(made), made)
    else:
        made = made * mask + (1.0 - mask) * colours
    if not image.is_floating_point():
        made = made.round()
    return made.reshape(*front, height, width).to(image.dtype)


def _fill_of(fill, image):
    """What goes outside of the image: a number for every channel."""
    if isinstance(image, rl.Tensor):
        channels = image.shape[-3]
    else:
        channels = len(image.getbands())
    given = [fill] * channels if isinstance(fill, numbers.Number) else list(fill)
    if len(given) != channels:
        raise ValueError(
            "The number of elements in 'fill' does not match the number of channels of "
            f"the image ({len(given)} != {channels})"
        )
    if isinstance(image, rl.Tensor):
        return [float(each) for each in given]
    whole = tuple(int(each) if image.mode != "F" else float(each) for each in given)
    return whole if channels > 1 else whole[0]


def rotate(image, angle, interpolation="nearest", expand=False, center=None, fill=0):
    """An image turned against the clock.

    Args:
        angle: in degrees.
        interpolation: ``nearest`` or ``bilinear``.
        expand: whether the result is large enough for all of it.
        center: what it turns about, from the upper left corner; its middle otherwise.
        fill: what goes where nothing was.

    >>> rotate(rl.tensor([[[1.0, 2.0], [3.0, 4.0]]]), 90)
    tensor([[[2., 4.],
             [1., 3.]]])
    """
    fill = _fill_of(fill, image)
    if not isinstance(image, rl.Tensor):
        return image.rotate(
            angle, FILTERS[interpolation], expand, center, fillcolor=fill
        )
    height, width = size_of(image)
    middle = [0.0, 0.0]
    if center is not None:
        middle = [each - size * 0.5 for each, size in zip(center, (width, height))]
    rows = _inverse(middle, -angle, (0.0, 0.0), 1.0, (0.0, 0.0))
    sizes = _grown(rows, width, height) if expand else (width, height)
    return _warped(image, rows, *sizes, interpolation, fill)


def affine(
    image,
    angle,
    translate,
    scale,
    shear,
    interpolation="nearest",
    fill=0,
    center=None,
):
    """An image turned, shifted, scaled and sheared about its middle.

    Args:
        angle: in degrees, clockwise.
        translate: pixels to the right and down.
        scale: how many times larger.
        shear: degrees along both sides, or along the first.
        interpolation: ``nearest`` or ``bilinear``.
        fill: what goes where nothing was.
        center: what it turns about, from the upper left corner; its middle otherwise.
    """
    if scale <= 0.0:
        raise ValueError("Argument scale should be positive")
    if isinstance(shear, numbers.Number):
        shear = [shear, 0.0]
    fill = _fill_of(fill, image)
    height, width = size_of(image)
    if not isinstance(image, rl.Tensor):
        middle = [width * 0.5, height * 0.5] if center is None else center
        rows = _inverse(middle, angle, translate, scale, shear)
        way = 0  # Pillow's number for an affine map
        size = (width, height)
        return image.transform(size, way, rows, FILTERS[interpolation], fillcolor=fill)
    middle = [0.0, 0.0]
    if center is not None:
        middle = [each - size * 0.5 for each, size in zip(center, (width, height))]
    rows = _inverse(middle, angle, translate, scale, shear)
    return _warped(image, rows, width, height, interpolation, fill)


def _both_ways(value, name):
    """Two bounds out of one number, or the two."""
    if isinstance(value, numbers.Number):
        if value < 0:
            raise ValueError(f"If {name} is a single number, it must be positive.")
        return [-float(value), float(value)]
    if len(value) not in (2, 4):
        raise ValueError(f"{name} should be a sequence of length 2 or 4.")
    return [float(each) for each in value]


class RandomRotation(Transform):
    """An image turned by a drawn angle.

    Args:
        degrees: how far either way, or the bounds.
        interpolation: ``nearest`` or ``bilinear``.
        expand: whether the result is large enough for all of it.
        center: what it turns about; its middle otherwise.
        fill: what goes where nothing was.
    """

    def __init__(
        self, degrees, interpolation="nearest", expand=False, center=None, fill=0
    ):
        self.degrees = _both_ways(degrees, "degrees")
        if len(self.degrees) != 2:
            raise ValueError("degrees should be a sequence of length 2.")
        self.interpolation = getattr(interpolation, "value", interpolation)
        self.expand = expand
        self.center = center
        self.fill = fill

    def __call__(self, image):
        angle = uniform(*self.degrees)
        options = self.interpolation, self.expand, self.center, self.fill
        return rotate(image, angle, *options)

    def __repr__(self):
        return (
            f"RandomRotation(degrees={self.degrees}, "
            f"interpolation={self.interpolation}, expand={self.expand}, fill={self.fill})"
        )


class RandomAffine(Transform):
    """An image turned, shifted, scaled and sheared by drawn amounts.

    Args:
        degrees: how far it turns either way, or the bounds.
        translate: how far it goes at most, as shares of its width and height.
        scale: how many times larger, least and most.
        shear: degrees along the first side either way, or its bounds, or both sides'.
        interpolation: ``nearest`` or ``bilinear``.
        fill: what goes where nothing was.
        center: what it turns about; its middle otherwise.
    """

    def __init__(
        self,
        degrees,
        translate=None,
        scale=None,
        shear=None,
        interpolation="nearest",
        fill=0,
        center=None,
    ):
        self.degrees = _both_ways(degrees, "degrees")
        if translate is not None and not all(0.0 <= each <= 1.0 for each in translate):
            raise ValueError("translation values should be between 0 and 1")
        if scale is not None and not all(each > 0 for each in scale):
            raise ValueError("scale values should be positive")
        self.translate = translate
        self.scale = scale
        self.shear = None if shear is None else _both_ways(shear, "shear")
        self.interpolation = getattr(interpolation, "value", interpolation)
        self.fill = fill
        self.center = center

    def draw(self, image) -> tuple[float, Sequence[int], float, Sequence[float]]:
        """An angle, a shift, a scale and two shears."""
        height, width = size_of(image)
        angle = uniform(*self.degrees)
        shift, scale, shear = [0, 0], 1.0, [0.0, 0.0]
        if self.translate is not None:
            most = [
                float(share * size)
                for share, size in zip(self.translate, (width, height))
            ]
            shift = [round(uniform(-each, each)) for each in most]
        if self.scale is not None:
            scale = uniform(*self.scale)
        if self.shear is not None:
            shear[0] = uniform(*self.shear[:2])
            if len(self.shear) == 4:
                shear[1] = uniform(*self.shear[2:])
        return angle, shift, scale, shear

    def __call__(self, image):
        drawn = self.draw(image)
        return affine(image, *drawn, self.interpolation, self.fill, self.center)

    def __repr__(self):
        return (
            f"RandomAffine(degrees={self.degrees}, translate={self.translate}, "
            f"scale={self.scale}, shear={self.shear})"
        )
