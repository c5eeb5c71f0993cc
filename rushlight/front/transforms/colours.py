"""Transforms of colours: Pillow images through Pillow, tensors (…, C, H, W) by formulas.

Formulas and draws are torchvision's, so that a seed gives the same pictures.
"""

import numbers

import rushlight as rl
from rushlight.transforms.geometry import Grayscale, pair, uniform
from rushlight.transforms.transforms import (
    Transform,
    convert_image_dtype,
    pil_to_tensor,
    to_pil_image,
)

_GREY = (0.2989, 0.587, 0.114)  # shares of red, green and blue


def _bound(image) -> float:
    """The number that stands for white."""
    return 1.0 if image.is_floating_point() else 255.0


def _blend(image, other, share: float):
    """``share`` of one image and the rest of another, within the colours."""
    mixed = (share * image + (1.0 - share) * other).clamp(0, _bound(image))
    return mixed.to(image.dtype)


def _grey(image):
    red, green, blue = image.unbind(-3)
    shade = _GREY[0] * red + _GREY[1] * green + _GREY[2] * blue
    return shade.to(image.dtype).unsqueeze(-3)


def _is_tensor(image) -> bool:
    return isinstance(image, rl.Tensor)


def _enhanced(image, kind: str, factor: float):
    from PIL import ImageEnhance

    return getattr(ImageEnhance, kind)(image).enhance(factor)


def adjust_brightness(img, brightness_factor: float):
    """Darker below 1, brighter above."""
    if not _is_tensor(img):
        return _enhanced(img, "Brightness", brightness_factor)
    return _blend(img, rl.zeros_like(img), brightness_factor)


def adjust_contrast(img, contrast_factor: float):
    """One grey at 0, the image at 1, more contrast above."""
    if not _is_tensor(img):
        return _enhanced(img, "Contrast", contrast_factor)
    grey = _grey(img) if img.shape[-3] == 3 else img
    real = img.dtype if img.is_floating_point() else rl.float32
    return _blend(img, grey.to(real).mean((-3, -2, -1), keepdim=True), contrast_factor)


def adjust_saturation(img, saturation_factor: float):
    """Without colours at 0, the image at 1, more colourful above."""
    if not _is_tensor(img):
        return _enhanced(img, "Color", saturation_factor)
    return img if img.shape[-3] == 1 else _blend(img, _grey(img), saturation_factor)


def adjust_hue(img, hue_factor: float):
    """Colours turned by a share of the circle, from -0.5 to 0.5.

    Raises:
        ValueError: the share is outside of that.
    """
    if not -0.5 <= hue_factor <= 0.5:
        raise ValueError(f"hue_factor ({hue_factor}) is not in [-0.5, 0.5].")
    if not _is_tensor(img):
        return _shifted_hue(img, hue_factor)
    if img.shape[-3] == 1:
        return img
    kind = img.dtype
    real = img if img.is_floating_point() else img.to(rl.float32) / 255.0
    hue, saturation, value = _to_hsv(real).unbind(-3)
    back = _from_hsv((hue + hue_factor) % 1.0, saturation, value)
    return back if kind.is_floating_point else (back * 255.999).to(kind)


def _shifted_hue(image, factor):
    if image.mode in ("L", "1", "I", "F"):
        return image
    import numpy
    from PIL import Image

    hue, saturation, value = image.convert("HSV").split()
    shifted = numpy.array(hue, dtype=numpy.uint8)
    shifted += numpy.uint8(int(factor * 255) % 256)  # beyond the end it begins anew
    parts = Image.fromarray(shifted), saturation, value
    return Image.merge("HSV", parts).convert(image.mode)


def _to_hsv(image):
    red, green, blue = image.unbind(-3)
    most, least = image.amax(-3), image.amin(-3)
    flat = most == least
    spread = most - least
    saturation = spread / rl.where(flat, 1, most)
    divisor = rl.where(flat, 1, spread)
    r, g, b = ((most - each) / divisor for each in (red, green, blue))
    at_red = (most == red) * (b - g)
    at_green = ((most == green) & (most != red)) * (2.0 + r - b)
    at_blue = ((most != green) & (most != red)) * (4.0 + g - r)
    hue = ((at_red + at_green + at_blue) / 6.0 + 1.0).fmod(1.0)
    return rl.stack((hue, saturation, most), -3)


def _from_hsv(hue, saturation, value):
    sixth = rl.floor(hue * 6.0)
    rest = hue * 6.0 - sixth
    sixth = sixth.to(rl.int32) % 6
    p = (value * (1.0 - saturation)).clamp(0.0, 1.0)
    q = (value * (1.0 - saturation * rest)).clamp(0.0, 1.0)
    t = (value * (1.0 - saturation * (1.0 - rest))).clamp(0.0, 1.0)
    rows = (
        (value, q, p, p, t, value),
        (t, value, value, q, p, p),
        (p, p, t, value, value, q),
    )
    chosen = [
        sum(rl.where(sixth == i, each, 0) for i, each in enumerate(row)) for row in rows
    ]
    return rl.stack(chosen, -3)


def adjust_gamma(img, gamma: float, gain: float = 1):
    """Every share of white to a power, times a gain: darker above 1, brighter below.

    Raises:
        ValueError: the power is negative.
    """
    if gamma < 0:
        raise ValueError("Gamma should be a non-negative real number")
    if not _is_tensor(img):
        table = [int((256 - 1e-3) * gain * (i / 255.0) ** gamma) for i in range(256)]
        return img.convert("RGB").point(table * 3).convert(img.mode)
    kind = img.dtype
    shares = convert_image_dtype(img, kind if kind.is_floating_point else rl.float32)
    return convert_image_dtype((gain * shares**gamma).clamp(0, 1), kind)


def invert(img):
    """Black for white and white for black."""
    if not _is_tensor(img):
        return _through_pillow(img, "invert")
    return 1.0 - img if img.is_floating_point() else 255 - img


def posterize(img, bits: int):
    """Only the highest bits of every colour.

    Raises:
        TypeError: a tensor is not of bytes.
    """
    if not _is_tensor(img):
        return _through_pillow(img, "posterize", bits)
    _want_bytes(img)
    return img & (256 - 2 ** (8 - bits))


def solarize(img, threshold: float):
    """Colours as bright as the threshold inverted.

    Raises:
        TypeError: a tensor has no number so large.
    """
    if not _is_tensor(img):
        return _through_pillow(img, "solarize", threshold)
    if threshold > _bound(img):
        raise TypeError("Threshold should be less than bound of img.")
    return rl.where(img >= threshold, invert(img), img)


def adjust_sharpness(img, sharpness_factor: float):
    """Blurred below 1, sharper above.

    Raises:
        ValueError: the sharpness_factor is negative.
    """
    if not _is_tensor(img):
        return _enhanced(img, "Sharpness", sharpness_factor)
    if sharpness_factor < 0:
        raise ValueError(f"sharpness_factor ({sharpness_factor}) is not non-negative.")
    if img.shape[-1] <= 2 or img.shape[-2] <= 2:
        return img
    kind = img.dtype if img.is_floating_point() else rl.float32
    kernel = rl.ones(3, 3, dtype=kind)
    kernel[1, 1] = 5.0
    blurred = img.clone()
    blurred[..., 1:-1, 1:-1] = _convolved(img, kernel / kernel.sum())
    return _blend(img, blurred, sharpness_factor)


def _through_pillow(image, name, *options):
    from PIL import ImageOps

    return getattr(ImageOps, name)(image, *options)


def _want_bytes(image):
    if image.dtype is not rl.uint8:
        raise TypeError(
            f"Only torch.uint8 image tensors are supported, but found {image.dtype}"
        )


def _range_of(name, value, centre=1.0, bounds=(0.0, float("inf")), above_zero=True):
    """Between which numbers a factor is drawn, or None where it is left alone."""
    if isinstance(value, numbers.Number):
        if value < 0:
            raise ValueError(f"If {name} is a single number, it must be non negative.")
        low = centre - float(value)
        given = [max(low, 0.0) if above_zero else low, centre + float(value)]
    elif len(value) == 2:
        given = [float(value[0]), float(value[1])]
    else:
        raise TypeError(
            f"{name} should be a single number or a list/tuple with length 2."
        )
    if not bounds[0] <= given[0] <= given[1] <= bounds[1]:
        raise ValueError(f"{name} values should be between {bounds}, but got {given}.")
    return None if given[0] == given[1] == centre else tuple(given)


class ColorJitter(Transform):
    """Brightness, contrast, saturation and hue drawn anew, done in a drawn order.

    Args:
        brightness, contrast, saturation: how far from 1 the factor may be, or its
            bounds.
        hue: how far the colours are turned, at most 0.5, or the bounds of it.
    """

    def __init__(self, brightness=0, contrast=0, saturation=0, hue=0):
        super().__init__()
        self.brightness = _range_of("brightness", brightness)
        self.contrast = _range_of("contrast", contrast)
        self.saturation = _range_of("saturation", saturation)
        self.hue = _range_of("hue", hue, 0.0, (-0.5, 0.5), False)

    @staticmethod
    def get_params(brightness, contrast, saturation, hue):
        """An order of the four, and their factors, None where there are no bounds."""
        order = rl.randperm(4)
        ranges = brightness, contrast, saturation, hue
        return order, *(each and uniform(*each) for each in ranges)

    def forward(self, image):
        ranges = self.brightness, self.contrast, self.saturation, self.hue
        order, *factors = self.get_params(*ranges)
        steps = adjust_brightness, adjust_contrast, adjust_saturation, adjust_hue
        for which in order.tolist():
            if factors[which] is not None:
                image = steps[which](image, factors[which])
        return image

    def __repr__(self):
        return (
            f"ColorJitter(brightness={self.brightness}, contrast={self.contrast}, "
            f"saturation={self.saturation}, hue={self.hue})"
        )


class RandomGrayscale(Transform):
    """An image without its colours, in as many channels, or as it is.

    Args:
        p: how likely the colours go.
    """

    def __init__(self, p: float = 0.1):
        super().__init__()
        self.p = p

    def forward(self, image):
        if rl.rand(1).item() >= self.p:
            return image
        channels = image.shape[-3] if _is_tensor(image) else len(image.getbands())
        return Grayscale(channels)(image)

    def __repr__(self):
        return f"RandomGrayscale(p={self.p})"


class _Perhaps(Transform):
    """A change that is made with a probability."""

    def __init__(self, p: float = 0.5):
        super().__init__()
        self.p = p

    def forward(self, image):
        return self.changed(image) if rl.rand(1).item() < self.p else image

    def changed(self, image):
        """The image with the change made."""
        raise NotImplementedError(f"{type(self).__name__} changes nothing")

    def __repr__(self):
        return f"{type(self).__name__}(p={self.p})"


class RandomInvert(_Perhaps):
    """Black for white and white for black, or the image as it is."""

    def changed(self, image):
        return invert(image)


class RandomPosterize(_Perhaps):
    """Only the highest bits of every colour, or the image as it is.

    Args:
        bits: how many bits stay.
        p: how likely.
    """

    def __init__(self, bits: int, p: float = 0.5):
        super().__init__(p)
        self.bits = bits

    def changed(self, image):
        return posterize(image, self.bits)

    def __repr__(self):
        return f"RandomPosterize(bits={self.bits},p={self.p})"


class RandomSolarize(_Perhaps):
    """Bright colours inverted, or the image as it is.

    Args:
        threshold: what is this bright is inverted.
        p: how likely.
    """

    def __init__(self, threshold: float, p: float = 0.5):
        super().__init__(p)
        self.threshold = threshold

    def changed(self, image):
        return solarize(image, self.threshold)

    def __repr__(self):
        return f"RandomSolarize(threshold={self.threshold},p={self.p})"


class RandomAdjustSharpness(_Perhaps):
    """Blurred below 1, sharper above, or the image as it is.

    Args:
        sharpness_factor: 0 blurs, 1 changes nothing, 2 doubles.
        p: how likely.
    """

    def __init__(self, sharpness_factor: float, p: float = 0.5):
        super().__init__(p)
        self.sharpness_factor = sharpness_factor

    def changed(self, image):
        return adjust_sharpness(image, self.sharpness_factor)

    def __repr__(self):
        return f"RandomAdjustSharpness(sharpness_factor={self.sharpness_factor},p={self.p})"


def _convolved(image, kernel):
    """Every channel with the same small kernel, at the places where it fits."""
    *front, height, width = image.shape
    stack = image.reshape(-1, 1, height, width).to(kernel.dtype)
    made = rl.nn.functional.conv2d(stack, kernel[None, None])
    if not image.is_floating_point():
        made = made.round()
    return made.reshape(*front, *made.shape[-2:]).to(image.dtype)


class RandomAutocontrast(_Perhaps):
    """The darkest colour black and the brightest white, or the image as it is."""

    def changed(self, image):
        return autocontrast(image)


class RandomEqualize(_Perhaps):
    """Every brightness about equally often, or the image as it is."""

    def changed(self, image):
        return equalize(image)


def autocontrast(img):
    """The darkest colour of each channel black and the brightest white."""
    if not _is_tensor(img):
        return _through_pillow(img, "autocontrast")
    bound = _bound(img)
    real = img if img.is_floating_point() else img.to(rl.float32)
    least = real.amin((-2, -1), keepdim=True)
    most = real.amax((-2, -1), keepdim=True)
    scale = bound / (most - least)
    flat = ~rl.isfinite(scale)
    least = rl.where(flat, 0, least)
    scale = rl.where(flat, 1, scale)
    return ((real - least) * scale).clamp(0, bound).to(img.dtype)


def equalize(img):
    """Every brightness of each channel about equally often.

    Raises:
        TypeError: a tensor is not of bytes.
    """
    if not _is_tensor(img):
        return _through_pillow(img, "equalize")
    _want_bytes(img)
    planes = img.reshape(-1, *img.shape[-2:])
    return rl.stack([_equalized(plane) for plane in planes]).reshape(img.shape)


def _equalized(plane):
    """One channel by its own histogram."""
    counts = rl.bincount(plane.reshape(-1).to(rl.int64), minlength=256)
    present = counts[counts != 0]
    step = int(present[:-1].sum()) // 255
    if step == 0:
        return plane
    table = (rl.cumsum(counts, 0) + step // 2) // step
    table = rl.cat([table.new_zeros(1), table[:-1]]).clamp(0, 255)
    return table[plane.to(rl.int64)].to(rl.uint8)


class GaussianBlur(Transform):
    """An image blurred by a bell curve of a drawn width.

    Args:
        kernel_size: how many pixels the curve reaches over, odd, across and down.
        sigma: the curve's width, or its bounds.
    """

    def __init__(self, kernel_size, sigma=(0.1, 2.0)):
        super().__init__()
        self.kernel_size = pair(kernel_size, "kernel_size")
        for size in self.kernel_size:
            if size <= 0 or size % 2 == 0:
                raise ValueError(
                    "Kernel size value should be an odd and positive number."
                )
        if isinstance(sigma, numbers.Number):
            if sigma <= 0:
                raise ValueError("If sigma is a single number, it must be positive.")
            sigma = (sigma, sigma)
        elif not 0.0 < sigma[0] <= sigma[1]:
            raise ValueError(
                "sigma values should be positive and of the form (min, max)."
            )
        self.sigma = sigma

    @staticmethod
    def get_params(sigma_min: float, sigma_max: float) -> float:
        """A width between two."""
        return uniform(sigma_min, sigma_max)

    def forward(self, image):
        width = self.get_params(*self.sigma)
        return gaussian_blur(image, self.kernel_size, [width, width])

    def __repr__(self):
        return f"GaussianBlur(kernel_size={self.kernel_size}, sigma={self.sigma})"


def gaussian_blur(img, kernel_size, sigma=None):
    """An image blurred by a bell curve.

    Args:
        img: a tensor (…, C, H, W) or a Pillow image.
        kernel_size: how many pixels the curve reaches over, odd, across and down.
        sigma: the curve's width, across and down; by its reach where left out.

    Raises:
        ValueError: a reach is not odd, or a width not positive.
    """
    if isinstance(kernel_size, int):
        kernel_size = [kernel_size, kernel_size]
    if len(kernel_size) != 2:
        raise ValueError(
            "If kernel_size is a sequence its length should be 2. "
            f"Got {len(kernel_size)}"
        )
    if any(size % 2 == 0 or size < 0 for size in kernel_size):
        raise ValueError(
            f"kernel_size should have odd and positive integers. Got {kernel_size}"
        )
    if sigma is None:
        sigma = [size * 0.15 + 0.35 for size in kernel_size]
    sigma = [sigma] if isinstance(sigma, numbers.Number) else list(sigma)
    sigma = sigma * 2 if len(sigma) == 1 else sigma
    if len(sigma) != 2:
        raise ValueError(
            f"If sigma is a sequence, its length should be 2. Got {len(sigma)}"
        )
    if any(width <= 0.0 for width in sigma):
        raise ValueError(f"sigma should have positive values. Got {sigma}")
    if not _is_tensor(img):
        return to_pil_image(
            gaussian_blur(pil_to_tensor(img), kernel_size, sigma), img.mode
        )
    kind = img.dtype if img.is_floating_point() else rl.float32
    across, down = (_bell(*each).to(kind) for each in zip(kernel_size, sigma))
    kernel = down[:, None] @ across[None]
    right, below = (size // 2 for size in kernel_size)
    *front, height, width = img.shape
    stack = img.reshape(-1, 1, height, width).to(kind)
    padded = rl.nn.functional.pad(stack, [right, right, below, below], "reflect")
    made = rl.nn.functional.conv2d(padded, kernel[None, None])
    if not img.is_floating_point():
        made = made.round()
    return made.reshape(img.shape).to(img.dtype)


def _bell(size, width):
    reach = (size - 1) * 0.5
    weights = rl.exp(-0.5 * (rl.linspace(-reach, reach, size) / width).pow(2))
    return weights / weights.sum()


class LinearTransformation(Transform):
    """An image, as one vector, less a mean, through a matrix: whitening.

    Args:
        transformation_matrix: as many rows and columns as an image has numbers.
        mean_vector: as many numbers.
    """

    def __init__(self, transformation_matrix, mean_vector):
        super().__init__()
        rows, columns = transformation_matrix.shape
        if rows != columns:
            raise ValueError(
                "transformation_matrix should be square. Got "
                f"{tuple(transformation_matrix.shape)} rectangular matrix."
            )
        if mean_vector.shape[0] != rows:
            raise ValueError(
                f"mean_vector should have the same length {mean_vector.shape[0]} as any "
                f"one of the dimensions of the transformation_matrix [{rows}, {columns}]"
            )
        self.transformation_matrix = transformation_matrix
        self.mean_vector = mean_vector

    def forward(self, image):
        numbers_ = image.shape[-3] * image.shape[-2] * image.shape[-1]
        if numbers_ != self.transformation_matrix.shape[0]:
            raise ValueError(
                "Input tensor and transformation matrix have incompatible shape. "
                f"{tuple(image.shape[-3:])} != {self.transformation_matrix.shape[0]}"
            )
        flat = image.reshape(-1, numbers_) - self.mean_vector
        return (flat @ self.transformation_matrix).reshape(image.shape)

    def __repr__(self):
        return (
            f"LinearTransformation(transformation_matrix="
            f"{self.transformation_matrix.tolist()}, "
            f"mean_vector={self.mean_vector.tolist()})"
        )
