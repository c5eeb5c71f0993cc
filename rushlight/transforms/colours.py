"""Transforms of colours: Pillow images through Pillow, tensors (…, C, H, W) by formulas.

Formulas and draws are torchvision's, so that a seed gives the same pictures.
"""

import numbers

import rushlight as rl
from rushlight.transforms.geometry import Grayscale, pair, uniform
from rushlight.transforms.transforms import Transform

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


def adjust_brightness(image, factor: float):
    """Darker below 1, brighter above."""
    if not _is_tensor(image):
        return _enhanced(image, "Brightness", factor)
    return _blend(image, rl.zeros_like(image), factor)


def adjust_contrast(image, factor: float):
    """One grey at 0, the image at 1, more contrast above."""
    if not _is_tensor(image):
        return _enhanced(image, "Contrast", factor)
    grey = _grey(image) if image.shape[-3] == 3 else image
    real = image.dtype if image.is_floating_point() else rl.float32
    return _blend(image, grey.to(real).mean((-3, -2, -1), keepdim=True), factor)


def adjust_saturation(image, factor: float):
    """Without colours at 0, the image at 1, more colourful above."""
    if not _is_tensor(image):
        return _enhanced(image, "Color", factor)
    return image if image.shape[-3] == 1 else _blend(image, _grey(image), factor)


def adjust_hue(image, factor: float):
    """Colours turned by a share of the circle, from -0.5 to 0.5.

    Raises:
        ValueError: the share is outside of that.
    """
    if not -0.5 <= factor <= 0.5:
        raise ValueError(f"hue_factor ({factor}) is not in [-0.5, 0.5].")
    if not _is_tensor(image):
        return _turned_hue(image, factor)
    if image.shape[-3] == 1:
        return image
    kind = image.dtype
    real = image if image.is_floating_point() else image.to(rl.float32) / 255.0
    hue, saturation, value = _to_hsv(real).unbind(-3)
    back = _from_hsv((hue + factor) % 1.0, saturation, value)
    return back if kind.is_floating_point else (back * 255.999).to(kind)


def _turned_hue(image, factor):
    if image.mode in ("L", "1", "I", "F"):
        return image
    import numpy
    from PIL import Image

    hue, saturation, value = image.convert("HSV").split()
    turned = numpy.array(hue, dtype=numpy.uint8)
    turned += numpy.uint8(int(factor * 255) % 256)  # beyond the end it begins anew
    parts = Image.fromarray(turned), saturation, value
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
        self.brightness = _range_of("brightness", brightness)
        self.contrast = _range_of("contrast", contrast)
        self.saturation = _range_of("saturation", saturation)
        self.hue = _range_of("hue", hue, 0.0, (-0.5, 0.5), False)

    def __call__(self, image):
        order = rl.randperm(4).tolist()
        ranges = self.brightness, self.contrast, self.saturation, self.hue
        factors = [each and uniform(*each) for each in ranges]
        steps = adjust_brightness, adjust_contrast, adjust_saturation, adjust_hue
        for which in order:
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
        self.p = p

    def __call__(self, image):
        if rl.rand(1).item() >= self.p:
            return image
        channels = image.shape[-3] if _is_tensor(image) else len(image.getbands())
        return Grayscale(channels)(image)

    def __repr__(self):
        return f"RandomGrayscale(p={self.p})"


class _Perhaps(Transform):
    """A change that is made with a probability."""

    def __init__(self, p: float = 0.5):
        self.p = p

    def __call__(self, image):
        return self.changed(image) if rl.rand(1).item() < self.p else image

    def changed(self, image):
        """The image with the change made."""
        raise NotImplementedError(f"{type(self).__name__} changes nothing")

    def __repr__(self):
        return f"{type(self).__name__}(p={self.p})"


def _through_pillow(image, name, *options):
    from PIL import ImageOps

    return getattr(ImageOps, name)(image, *options)


class RandomInvert(_Perhaps):
    """Black for white and white for black, or the image as it is."""

    def changed(self, image):
        if not _is_tensor(image):
            return _through_pillow(image, "invert")
        return 1.0 - image if image.is_floating_point() else 255 - image


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
        if not _is_tensor(image):
            return _through_pillow(image, "posterize", self.bits)
        if image.dtype is not rl.uint8:
            raise TypeError(
                f"Only torch.uint8 image tensors are supported, but found {image.dtype}"
            )
        return image & (256 - 2 ** (8 - self.bits))

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
        if not _is_tensor(image):
            return _through_pillow(image, "solarize", self.threshold)
        inverted = 1.0 - image if image.is_floating_point() else 255 - image
        return rl.where(image >= self.threshold, inverted, image)

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
        factor = self.sharpness_factor
        if not _is_tensor(image):
            return _enhanced(image, "Sharpness", factor)
        if image.shape[-1] <= 2 or image.shape[-2] <= 2:
            return image
        kind = image.dtype if image.is_floating_point() else rl.float32
        kernel = rl.ones(3, 3, dtype=kind)
        kernel[1, 1] = 5.0
        blurred = image.clone()
        blurred[..., 1:-1, 1:-1] = _convolved(image, kernel / kernel.sum())
        return _blend(image, blurred, factor)

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
        if not _is_tensor(image):
            return _through_pillow(image, "autocontrast")
        bound = _bound(image)
        real = image if image.is_floating_point() else image.to(rl.float32)
        least = real.amin((-2, -1), keepdim=True)
        most = real.amax((-2, -1), keepdim=True)
        scale = bound / (most - least)
        flat = ~rl.isfinite(scale)
        least = rl.where(flat, 0, least)
        scale = rl.where(flat, 1, scale)
        return ((real - least) * scale).clamp(0, bound).to(image.dtype)


class RandomEqualize(_Perhaps):
    """Every brightness about equally often, or the image as it is."""

    def changed(self, image):
        if not _is_tensor(image):
            return _through_pillow(image, "equalize")
        if image.dtype is not rl.uint8:
            raise TypeError(
                f"Only torch.uint8 image tensors are supported, but found {image.dtype}"
            )
        planes = image.reshape(-1, *image.shape[-2:])
        return rl.stack([_equalized(plane) for plane in planes]).reshape(image.shape)


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

    def __call__(self, image):
        width = uniform(*self.sigma)
        if not _is_tensor(image):
            from rushlight.transforms.transforms import PILToTensor, ToPILImage

            tensor = PILToTensor()(image)
            return ToPILImage(image.mode)(self._blurred(tensor, width))
        return self._blurred(image, width)

    def _blurred(self, image, width):
        kind = image.dtype if image.is_floating_point() else rl.float32
        across, height = (_bell(size, width, kind) for size in self.kernel_size)
        kernel = height[:, None] @ across[None]
        right, down = (size // 2 for size in self.kernel_size)
        *front, h, w = image.shape
        stack = image.reshape(-1, 1, h, w).to(kind)
        padded = rl.nn.functional.pad(stack, [right, right, down, down], "reflect")
        made = rl.nn.functional.conv2d(padded, kernel[None, None])
        if not image.is_floating_point():
            made = made.round()
        return made.reshape(image.shape).to(image.dtype)

    def __repr__(self):
        return f"GaussianBlur(kernel_size={self.kernel_size}, sigma={self.sigma})"


def _bell(size, width, dtype):
    reach = (size - 1) * 0.5
    places = rl.linspace(-reach, reach, size, dtype=dtype)
    weights = rl.exp(-0.5 * (places / width).pow(2))
    return weights / weights.sum()


class LinearTransformation(Transform):
    """An image, as one vector, less a mean, through a matrix: whitening.

    Args:
        transformation_matrix: as many rows and columns as an image has numbers.
        mean_vector: as many numbers.
    """

    def __init__(self, transformation_matrix, mean_vector):
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

    def __call__(self, image):
        numbers_ = image.shape[-3] * image.shape[-2] * image.shape[-1]
        if numbers_ != self.transformation_matrix.shape[0]:
            raise ValueError(
                "Input tensor and transformation matrix have incompatible shape. "
                f"{tuple(image.shape[-3:])} != {self.transformation_matrix.shape[0]}"
            )
        flat = image.reshape(-1, numbers_) - self.mean_vector
        return (flat @ self.transformation_matrix).reshape(image.shape)
