"""Transforms that turn, shift, scale and shear: Pillow images and tensors (…, H, W).

Matrices and draws are torchvision's, so that a seed gives the same pictures.
"""

import math
import numbers

import rushlight as rl
from rushlight.transforms.geometry import size_of, uniform
from rushlight.transforms.modes import FILTERS, InterpolationMode, mode_of
from rushlight.transforms.transforms import Transform


def _inverse(centre, angle, shift, scale, shear):
    """Two rows that say, for a place in the result, where in the image it comes from."""
    angle_radians = math.radians(angle)
    sx, sy = (math.radians(each) for each in shear)
    a = math.cos(angle_radians - sy) / math.cos(sy)
    b = -math.cos(angle_radians - sy) * math.tan(sx) / math.cos(sy) - math.sin(
        angle_radians
    )
    c = math.sin(angle_radians - sy) / math.cos(sy)
    d = -math.sin(angle_radians - sy) * math.tan(sx) / math.cos(sy) + math.cos(
        angle_radians
    )
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
    rotated = corners @ rl.tensor(rows).reshape(2, 3).T
    rotated += rl.tensor([width * 0.5, height * 0.5])
    near = 1e-4  # a corner this close to a pixel's edge is on it
    least = ((rotated.amin(0) / near).trunc() * near).floor()
    most = ((rotated.amax(0) / near).trunc() * near).ceil()
    grown = most - least
    return int(grown[0]), int(grown[1])


def _affine_grid(rows, width, height, own, kind):
    """Where each pixel of a result lies in an image of a size, in shares of its half."""
    theta = rl.tensor(rows, dtype=kind).reshape(2, 3)
    base = rl.ones(height, width, 3, dtype=kind)
    base[..., 0] = rl.linspace(-width * 0.5 + 0.5, width * 0.5 - 0.5, width)
    base[..., 1] = rl.linspace(-height * 0.5 + 0.5, height * 0.5 - 0.5, height)[:, None]
    half = rl.tensor([0.5 * own[1], 0.5 * own[0]], dtype=kind)
    return (base.reshape(-1, 3) @ (theta.T / half)).reshape(1, height, width, 2)


def float_type(image):
    """The type in which an image is computed with."""
    return image.dtype if image.is_floating_point() else rl.float32


def sampled(image, grid, mode: str, fill):
    """A tensor's numbers at the places of a grid, ``fill`` outside of it.

    Without a fill it is black outside, and pixels half outside are half black.

    Raises:
        ValueError: the mode is Pillow's alone, or bicubic.
    """
    if mode not in ("nearest", "bilinear"):
        raise ValueError(
            f"Interpolation mode '{mode}' is unsupported with Tensor input"
        )
    own_height, own_width = size_of(image)
    _, height, width, _ = grid.shape
    *front, _, _ = image.shape
    stack = image.reshape(1, -1, own_height, own_width).to(grid.dtype)
    if fill is not None:
        # One channel more tells how much of a pixel lies inside of the image.
        stack = rl.cat([stack, rl.ones_like(stack[:, :1])], 1)
    made = rl.nn.functional.grid_sample(stack, grid, mode, "zeros", False)
    if fill is not None:
        made, mask = made[:, :-1], made[:, -1:]
        colours = rl.tensor(fill, dtype=grid.dtype).repeat(math.prod(front[:-1]))
        colours = colours.reshape(1, -1, 1, 1)
        if mode == "nearest":
            made = rl.where(mask < 0.5, colours.expand_as(made), made)
        else:
            made = made * mask + (1.0 - mask) * colours
    if not image.is_floating_point():
        made = made.round()
    return made.reshape(*front, height, width).to(image.dtype)


def fill_of(fill, image):
    """What goes outside of an image: a number for every channel, or None for a tensor."""
    tensor = isinstance(image, rl.Tensor)
    if fill is None:
        if tensor:
            return None
        fill = 0
    channels = image.shape[-3] if tensor else len(image.getbands())
    given = [fill] if isinstance(fill, numbers.Number) else list(fill)
    if len(given) == 1:
        given *= channels
    if len(given) != channels:
        raise ValueError(
            "The number of elements in 'fill' does not match the number of channels of "
            f"the image ({len(given)} != {channels})"
        )
    if tensor:
        return [float(each) for each in given]
    whole = tuple(int(each) if image.mode != "F" else float(each) for each in given)
    return whole if channels > 1 else whole[0]


def rotate(
    img,
    angle,
    interpolation=InterpolationMode.NEAREST,
    expand=False,
    center=None,
    fill=None,
):
    """An image turned against the clock.

    Args:
        angle: in degrees.
        interpolation: how pixels between pixels are made up.
        expand: whether the result is large enough for all of it.
        center: what it turns about, from the upper left corner; its middle otherwise.
        fill: what goes where nothing was.

    >>> rotate(rl.tensor([[[1.0, 2.0], [3.0, 4.0]]]), 90)
    tensor([[[2., 4.],
             [1., 3.]]])
    """
    mode, fill = mode_of(interpolation).value, fill_of(fill, img)
    if not isinstance(img, rl.Tensor):
        return img.rotate(angle, FILTERS[mode], expand, center, fillcolor=fill)
    height, width = size_of(img)
    middle = [0.0, 0.0]
    if center is not None:
        middle = [each - size * 0.5 for each, size in zip(center, (width, height))]
    rows = _inverse(middle, -angle, (0.0, 0.0), 1.0, (0.0, 0.0))
    sizes = _grown(rows, width, height) if expand else (width, height)
    grid = _affine_grid(rows, *sizes, (height, width), float_type(img))
    return sampled(img, grid, mode, fill)


def affine(
    img,
    angle,
    translate,
    scale,
    shear,
    interpolation=InterpolationMode.NEAREST,
    fill=None,
    center=None,
):
    """An image turned, shifted, scaled and sheared about its middle.

    Args:
        angle: in degrees, clockwise.
        translate: pixels to the right and down.
        scale: how many times larger.
        shear: degrees along both sides, or along the first.
        interpolation: how pixels between pixels are made up.
        fill: what goes where nothing was; black if left out.
        center: what it turns about, from the upper left corner; its middle otherwise.
    """
    if scale <= 0.0:
        raise ValueError("Argument scale should be positive")
    if isinstance(shear, numbers.Number):
        shear = [shear, 0.0]
    elif len(shear) == 1:
        shear = [shear[0], shear[0]]
    if len(shear) != 2:
        raise ValueError(
            f"Shear should be a sequence containing two values. Got {shear}"
        )
    mode, fill = mode_of(interpolation).value, fill_of(fill, img)
    height, width = size_of(img)
    if not isinstance(img, rl.Tensor):
        middle = [width * 0.5, height * 0.5] if center is None else center
        rows = _inverse(middle, angle, translate, scale, shear)
        way = 0  # Pillow's number for an affine map
        size = (width, height)
        return img.transform(size, way, rows, FILTERS[mode], fillcolor=fill)
    middle = [0.0, 0.0]
    if center is not None:
        middle = [each - size * 0.5 for each, size in zip(center, (width, height))]
    rows = _inverse(middle, angle, translate, scale, shear)
    grid = _affine_grid(rows, width, height, (height, width), float_type(img))
    return sampled(img, grid, mode, fill)


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
        interpolation: how pixels between pixels are made up.
        expand: whether the result is large enough for all of it.
        center: what it turns about; its middle otherwise.
        fill: what goes where nothing was.
    """

    def __init__(
        self,
        degrees,
        interpolation=InterpolationMode.NEAREST,
        expand=False,
        center=None,
        fill=0,
    ):
        super().__init__()
        self.degrees = _both_ways(degrees, "degrees")
        if len(self.degrees) != 2:
            raise ValueError("degrees should be a sequence of length 2.")
        self.interpolation = mode_of(interpolation)
        self.expand = expand
        self.center = center
        self.fill = fill

    @staticmethod
    def get_params(degrees) -> float:
        """An angle between two."""
        return uniform(float(degrees[0]), float(degrees[1]))

    def forward(self, image):
        angle = self.get_params(self.degrees)
        options = self.interpolation, self.expand, self.center, self.fill
        return rotate(image, angle, *options)

    def __repr__(self):
        return (
            f"RandomRotation(degrees={self.degrees}, "
            f"interpolation={self.interpolation.value}, expand={self.expand}"
            + ("" if self.center is None else f", center={self.center}")
            + f", fill={self.fill})"
        )


class RandomAffine(Transform):
    """An image turned, shifted, scaled and sheared by drawn amounts.

    Args:
        degrees: how far it turns either way, or the bounds.
        translate: how far it goes at most, as shares of its width and height.
        scale: how many times larger, least and most.
        shear: degrees along the first side either way, or its bounds, or both sides'.
        interpolation: how pixels between pixels are made up.
        fill: what goes where nothing was.
        center: what it turns about; its middle otherwise.
    """

    def __init__(
        self,
        degrees,
        translate=None,
        scale=None,
        shear=None,
        interpolation=InterpolationMode.NEAREST,
        fill=0,
        center=None,
    ):
        super().__init__()
        self.degrees = _both_ways(degrees, "degrees")
        if translate is not None and not all(0.0 <= each <= 1.0 for each in translate):
            raise ValueError("translation values should be between 0 and 1")
        if scale is not None and not all(each > 0 for each in scale):
            raise ValueError("scale values should be positive")
        self.translate = translate
        self.scale = scale
        self.shear = None if shear is None else _both_ways(shear, "shear")
        self.interpolation = mode_of(interpolation)
        self.fill = fill
        self.center = center

    @staticmethod
    def get_params(degrees, translate, scale_ranges, shears, img_size):
        """An angle, a shift, a scale and two shears for an image (width, height)."""
        angle = uniform(float(degrees[0]), float(degrees[1]))
        shift, scale, shear = (0, 0), 1.0, [0.0, 0.0]
        if translate is not None:
            most = [float(share * size) for share, size in zip(translate, img_size)]
            shift = tuple(round(uniform(-each, each)) for each in most)
        if scale_ranges is not None:
            scale = uniform(*scale_ranges)
        if shears is not None:
            shear[0] = uniform(*shears[:2])
            if len(shears) == 4:
                shear[1] = uniform(*shears[2:])
        return angle, shift, scale, tuple(shear)

    def forward(self, image):
        size = size_of(image)[::-1]
        ranges = self.degrees, self.translate, self.scale, self.shear
        drawn = self.get_params(*ranges, size)
        return affine(image, *drawn, self.interpolation, self.fill, self.center)

    def __repr__(self):
        named = {
            "translate": self.translate,
            "scale": self.scale,
            "shear": self.shear,
            "interpolation": self.interpolation.value,
            "fill": self.fill,
            "center": self.center,
        }
        said = "".join(
            f", {name}={value}"
            for name, value in named.items()
            if value is not None and value not in (0, "nearest")
        )
        return f"RandomAffine(degrees={self.degrees}{said})"
