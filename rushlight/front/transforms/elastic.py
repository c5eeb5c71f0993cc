"""Transforms that move every pixel its own way: seen from aside, and under water.

Grids and draws are torchvision's, so that a seed gives the same pictures.
"""

import numbers

import rushlight as rl
from rushlight.transforms.affine import fill_of, float_type, sampled
from rushlight.transforms.colours import gaussian_blur
from rushlight.transforms.geometry import random_below, size_of
from rushlight.transforms.modes import FILTERS, InterpolationMode, mode_of
from rushlight.transforms.transforms import Transform, pil_to_tensor, to_pil_image


def _coefficients(startpoints, endpoints) -> list[float]:
    """Eight numbers a…h that take each end point back to its start.

    A point (x, y) comes from ((ax + by + c) / (gx + hy + 1), (dx + ey + f) / (gx + hy
    + 1)): two equations for each corner, linear in the eight.
    """
    rows = []
    for (x, y), (u, v) in zip(endpoints, startpoints):
        rows.append([x, y, 1, 0, 0, 0, -u * x, -u * y])
        rows.append([0, 0, 0, x, y, 1, -v * x, -v * y])
    # In float64, as torchvision since 0.17: in float32 the last bits show in the picture.
    positions = rl.tensor(startpoints, dtype=rl.float64).view(8)
    equations = rl.tensor(rows, dtype=rl.float64)
    found = rl.linalg.lstsq(equations, positions, driver="gels").solution
    return found.to(rl.float32).tolist()


def _perspective_grid(coefficients, width, height, kind):
    """Where each pixel of a result lies in the image, in shares of its half."""
    a, b, c, d, e, f, g, h = coefficients
    above = rl.tensor([[a, b, c], [d, e, f]], dtype=kind)
    below = rl.tensor([[g, h, 1.0], [g, h, 1.0]], dtype=kind)
    base = rl.ones(height, width, 3, dtype=kind)
    base[..., 0] = rl.linspace(0.5, width - 0.5, width)
    base[..., 1] = rl.linspace(0.5, height - 0.5, height)[:, None]
    base = base.reshape(-1, 3)
    half = rl.tensor([0.5 * width, 0.5 * height], dtype=kind)
    grid = (base @ (above.T / half)) / (base @ below.T) - 1.0
    return grid.reshape(1, height, width, 2)


def perspective(
    img, startpoints, endpoints, interpolation=InterpolationMode.BILINEAR, fill=None
):
    """An image seen from aside: its corners go elsewhere, and lines stay lines.

    Args:
        img: a tensor (…, C, H, W) or a Pillow image.
        startpoints: four corners (x, y): upper left and right, lower right and left.
        endpoints: where they go.
        interpolation: how pixels between pixels are made up.
        fill: what goes where nothing was; black if left out.

    >>> from rushlight.transforms.functional import perspective
    >>> corners = [[0, 0], [1, 0], [1, 1], [0, 1]]
    >>> rotated = corners[1:] + corners[:1]
    >>> perspective(rl.tensor([[[1.0, 2.0], [3.0, 4.0]]]), corners, rotated).shape
    rushlight.Size([1, 2, 2])
    """
    coefficients = _coefficients(startpoints, endpoints)
    mode, fill = mode_of(interpolation).value, fill_of(fill, img)
    if not isinstance(img, rl.Tensor):
        way = 2  # Pillow's number for a perspective
        return img.transform(img.size, way, coefficients, FILTERS[mode], fillcolor=fill)
    height, width = size_of(img)
    grid = _perspective_grid(coefficients, width, height, float_type(img))
    return sampled(img, grid, mode, fill)


def elastic_transform(
    img, displacement, interpolation=InterpolationMode.BILINEAR, fill=None
):
    """An image whose every pixel comes from a little beside.

    Args:
        img: a tensor (…, C, H, W) or a Pillow image.
        displacement: how far beside (1, H, W, 2), to the right and down, in shares of
            half the image.
        interpolation: how pixels between pixels are made up.
        fill: what goes where nothing was; black if left out.

    Raises:
        TypeError: the displacement is no tensor.
        ValueError: it is of another shape.
    """
    if not isinstance(displacement, rl.Tensor):
        raise TypeError("Argument displacement should be a Tensor")
    height, width = size_of(img)
    shape = (1, height, width, 2)
    if tuple(displacement.shape) != shape:
        raise ValueError(
            f"Argument displacement shape should be {shape}, but given "
            f"{tuple(displacement.shape)}"
        )
    if not isinstance(img, rl.Tensor):
        tensor = pil_to_tensor(img)
        made = elastic_transform(tensor, displacement, interpolation, fill)
        return to_pil_image(made, img.mode)
    down, across = (
        rl.linspace((1 - size) / size, (size - 1) / size, size)
        for size in (height, width)
    )
    positions = rl.meshgrid(down, across, indexing="ij")
    grid = rl.stack(positions[::-1], -1).unsqueeze(0) + displacement
    mode = mode_of(interpolation).value
    return sampled(img, grid, mode, fill_of(fill, img))


class RandomPerspective(Transform):
    """An image seen from aside by drawn amounts, or as it is.

    Args:
        distortion_scale: how far a corner may go, as a share of half the image.
        p: how likely.
        interpolation: how pixels between pixels are made up.
        fill: what goes where nothing was.

    Raises:
        TypeError: the fill is neither a number nor a sequence.
    """

    def __init__(
        self,
        distortion_scale=0.5,
        p=0.5,
        interpolation=InterpolationMode.BILINEAR,
        fill=0,
    ):
        super().__init__()
        self.p = p
        self.interpolation = mode_of(interpolation)
        self.distortion_scale = distortion_scale
        if fill is not None and not isinstance(fill, (tuple, list, numbers.Number)):
            raise TypeError("Fill should be either a sequence or a number.")
        self.fill = 0 if fill is None else fill

    @staticmethod
    def get_params(width: int, height: int, distortion_scale: float):
        """The corners, and where they go."""
        across = int(distortion_scale * (width // 2)) + 1
        down = int(distortion_scale * (height // 2)) + 1
        ends = []
        for right, low in ((0, 0), (1, 0), (1, 1), (0, 1)):
            x = random_below(across) + right * (width - across)
            ends.append([x, random_below(down) + low * (height - down)])
        x, y = width - 1, height - 1
        return [[0, 0], [x, 0], [x, y], [0, y]], ends

    def forward(self, image):
        if rl.rand(1).item() >= self.p:
            return image
        height, width = size_of(image)
        corners = self.get_params(width, height, self.distortion_scale)
        return perspective(image, *corners, self.interpolation, self.fill)

    def __repr__(self):
        return f"RandomPerspective(p={self.p})"


class ElasticTransform(Transform):
    """An image as if under water: every pixel comes from a drawn place beside.

    Args:
        alpha: how far beside, across and down.
        sigma: how smoothly that changes from pixel to pixel, across and down.
        interpolation: how pixels between pixels are made up.
        fill: what goes where nothing was.

    Raises:
        TypeError: ``alpha`` or ``sigma`` is no float.
        ValueError: there are more than two.
    """

    def __init__(
        self, alpha=50.0, sigma=5.0, interpolation=InterpolationMode.BILINEAR, fill=0
    ):
        super().__init__()
        self.alpha = _two_floats(alpha, "alpha")
        self.sigma = _two_floats(sigma, "sigma")
        self.interpolation = mode_of(interpolation)
        if not isinstance(fill, (int, float, list, tuple)):
            raise TypeError(
                "fill should be int or float or a list or tuple of them. "
                f"Got {type(fill)}"
            )
        whole = [fill] if isinstance(fill, (int, float)) else fill
        self.fill = [float(each) for each in whole]

    @staticmethod
    def get_params(alpha, sigma, size):
        """How far beside each pixel comes from, for an image (height, width)."""
        ways = []
        for reach, width, long in zip(alpha, sigma, size):
            way = rl.rand([1, 1, *size]) * 2 - 1
            if width > 0.0:
                kernel = int(8 * width + 1) | 1  # an odd number of pixels
                way = gaussian_blur(way, [kernel, kernel], sigma)
            ways.append(way * reach / long)
        return rl.cat(ways, 1).permute(0, 2, 3, 1)

    def forward(self, image):
        moved = self.get_params(self.alpha, self.sigma, list(size_of(image)))
        return elastic_transform(image, moved, self.interpolation, self.fill)

    def __repr__(self):
        return (
            f"ElasticTransform(alpha={self.alpha}, sigma={self.sigma}, "
            f"interpolation={self.interpolation}, fill={self.fill})"
        )


def _two_floats(value, name) -> list[float]:
    if isinstance(value, float):
        return [value, value]
    if not isinstance(value, (list, tuple)):
        raise TypeError(
            f"{name} should be float or a sequence of floats. Got {type(value)}"
        )
    if len(value) != 2:
        raise ValueError(
            f"If {name} is a sequence its length should be 2. Got {len(value)}"
        )
    for each in value:
        if not isinstance(each, float):
            raise TypeError(f"{name} should be a sequence of floats. Got {type(each)}")
    return list(value)
