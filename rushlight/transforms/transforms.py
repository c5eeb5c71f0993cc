"""Transforms of one image, and of a whole batch where that gives the same numbers."""

from collections.abc import Callable, Sequence

import rushlight as rl


class Transform:
    """A change to an image.

    ``takes_tensor`` says that a tensor of bytes (height, width[, channels]) may stand
    for the image. ``batched`` says that ``batch`` changes a stack of images at once, to
    the very numbers that the images give one by one.
    """

    takes_tensor = False
    batched = False

    def __call__(self, image):
        raise NotImplementedError("Subclasses of Transform should implement __call__.")

    def batch(self, images):
        """A stack of images changed at once."""
        raise NotImplementedError(f"{type(self).__name__} changes one image at a time")

    def __repr__(self):
        return f"{type(self).__name__}()"


class Compose(Transform):
    """Several transforms, one after another.

    >>> t = rl.transforms.Compose([
    ...     rl.transforms.ToTensor(), rl.transforms.Normalize((0.5,), (0.5,))])
    >>> t(rl.tensor([[0, 255]], dtype=rl.uint8))
    tensor([[[-1.,  1.]]])
    """

    def __init__(self, transforms: Sequence[Callable]):
        self.transforms = transforms

    @property
    def takes_tensor(self) -> bool:  # type: ignore[override]
        return bool(self.transforms) and getattr(
            self.transforms[0], "takes_tensor", False
        )

    @property
    def batched(self) -> bool:  # type: ignore[override]
        parts = self.transforms
        return self.takes_tensor and all(
            isinstance(part, Transform) and part.batched for part in parts
        )

    def __call__(self, image):
        for transform in self.transforms:
            image = transform(image)
        return image

    def batch(self, images):
        for transform in self.transforms:
            images = transform.batch(images)
        return images

    def __repr__(self):
        parts = "".join(f"    {part}\n" for part in self.transforms)
        return f"Compose(\n{parts})"


class PILToTensor(Transform):
    """An image as a tensor (channels, height, width) with the numbers it has."""

    takes_tensor = True
    batched = True

    def __call__(self, image):
        return channels_first(pixels(image), 0)

    def batch(self, images):
        return channels_first(images, 1)


class ToTensor(Transform):
    """An image as a tensor (channels, height, width); bytes become floats in [0, 1]."""

    takes_tensor = True
    batched = True

    def __call__(self, image):
        return as_fraction(channels_first(pixels(image), 0))

    def batch(self, images):
        return as_fraction(channels_first(images, 1))


class ConvertImageDtype(Transform):
    """An image of another type, its range kept: bytes to floats in [0, 1] and back."""

    batched = True

    def __init__(self, dtype):
        self.dtype = dtype

    def __call__(self, image):
        if image.dtype == self.dtype:
            return image
        if image.dtype == rl.uint8 and self.dtype.is_floating_point:
            return image.to(self.dtype).div(255)
        if image.dtype.is_floating_point and self.dtype == rl.uint8:
            return image.mul(255 + 1.0 - 1e-3).to(rl.uint8)
        if image.dtype.is_floating_point and self.dtype.is_floating_point:
            return image.to(self.dtype)
        raise TypeError(
            f"ConvertImageDtype: from {image.dtype} to {self.dtype} is not known"
        )

    def batch(self, images):
        return self(images)

    def __repr__(self):
        return f"ConvertImageDtype({self.dtype})"


class Normalize(Transform):
    """Each channel less its mean, over its standard deviation.

    Args:
        mean: one number for each channel.
        std: one number for each channel, none zero.
        inplace: change the image itself.
    """

    batched = True

    def __init__(
        self, mean: Sequence[float], std: Sequence[float], inplace: bool = False
    ):
        if any(value == 0 for value in rl.as_tensor(std).flatten().tolist()):
            raise ValueError(
                f"Normalize: std {std} has a zero, leading to division by zero"
            )
        self.mean = mean
        self.std = std
        self.inplace = inplace

    def __call__(self, image):
        if not isinstance(image, rl.Tensor):
            raise TypeError(f"Normalize: img should be Tensor Image. Got {type(image)}")
        if not image.is_floating_point():
            raise TypeError(
                "Normalize: input tensor should be a float tensor. "
                f"Got {image.dtype}.\n"
                "  put ToTensor() before it"
            )
        if image.dim() < 3:
            raise ValueError(
                "Normalize: expected tensor to be a tensor image of size "
                f"(..., C, H, W). Got tensor.size() = {tuple(image.shape)}"
            )
        mean, std = (
            rl.as_tensor(values, dtype=image.dtype).reshape(-1, 1, 1)
            for values in (self.mean, self.std)
        )
        result = image if self.inplace else image.clone()
        return result.sub_(mean).div_(std)

    def batch(self, images):
        return self(images)

    def __repr__(self):
        return f"Normalize(mean={self.mean}, std={self.std})"


class Lambda(Transform):
    """A function as a transform."""

    def __init__(self, lambd: Callable):
        if not callable(lambd):
            raise TypeError(
                f"Argument lambd should be callable, got {type(lambd).__name__!r}"
            )
        self.lambd = lambd

    def __call__(self, image):
        return self.lambd(image)


class ToPILImage(Transform):
    """A tensor (height, width) or (channels, height, width) as a Pillow image."""

    takes_tensor = True

    def __init__(self, mode: str | None = None):
        self.mode = mode

    def __call__(self, image):
        try:
            from PIL import Image
        except ModuleNotFoundError:
            raise ModuleNotFoundError(
                "an image as a Pillow image needs Pillow: pip install pillow\n"
                "  or start the transform with ToTensor(), which takes the pixels as "
                "they are"
            ) from None
        if isinstance(image, rl.Tensor):
            if image.is_floating_point():
                image = image.mul(255).to(rl.uint8)
            if image.dim() == 3:
                image = image.permute(1, 2, 0)
                image = image[:, :, 0] if image.size(2) == 1 else image
            image = image.contiguous().numpy()
        return (
            Image.fromarray(image)
            if self.mode is None
            else (Image.fromarray(image).convert(self.mode))
        )


def pixels(image):
    """An image's numbers as a tensor (height, width[, channels])."""
    if isinstance(image, rl.Tensor):
        if image.dim() not in (2, 3):
            raise ValueError(
                f"pic should be 2/3 dimensional. Got {image.dim()} dimensions."
            )
        return image
    kind = type(image)
    if kind.__name__ == "ndarray" and kind.__module__ == "numpy":
        if image.ndim not in (2, 3):
            raise ValueError(
                f"pic should be 2/3 dimensional. Got {image.ndim} dimensions."
            )
        return rl.as_tensor(image)
    if not kind.__module__.startswith("PIL."):
        raise TypeError(f"pic should be PIL Image or ndarray. Got {kind}")
    import numpy

    return rl.as_tensor(numpy.array(image))


def channels_first(image, dim: int):
    """(…, height, width[, channels]) with the channels, one if unsaid, at ``dim``."""
    if image.dim() == dim + 2:
        return image.unsqueeze(dim)
    return image.movedim(-1, dim).contiguous()


def as_fraction(image):
    """Bytes as floats in [0, 1]; other numbers as they are."""
    if image.dtype == rl.uint8:
        return image.to(rl.get_default_dtype()).div(255)
    return image
