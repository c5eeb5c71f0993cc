"""Transforms of one image, and of a whole batch where that gives the same numbers."""

from collections.abc import Callable, Sequence
from typing import Any

import rushlight as rl
from rushlight import nn


class Transform(nn.Module):
    """A change to an image, which can stand among other modules.

    ``takes_tensor`` says that a tensor of bytes (height, width[, channels]) may stand
    for the image. ``batched`` says that ``batch`` changes a stack of images at once, to
    the very numbers that the images give one by one.
    """

    takes_tensor = False
    batched = False

    def forward(self, image):
        """The image changed."""
        raise NotImplementedError(f"{type(self).__name__} does not define forward")

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
        super().__init__()
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

    def forward(self, image):
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

    def __init__(self) -> None:
        super().__init__()

    def forward(self, image):
        return channels_first(pixels(image), 0)

    def batch(self, images):
        return channels_first(images, 1)


class ToTensor(Transform):
    """An image as a tensor (channels, height, width); bytes become floats in [0, 1]."""

    takes_tensor = True
    batched = True

    def __init__(self) -> None:
        super().__init__()

    def forward(self, image):
        return to_tensor(image)

    def batch(self, images):
        return as_fraction(channels_first(images, 1))


class ConvertImageDtype(Transform):
    """An image of another type, its range kept: bytes to floats in [0, 1] and back."""

    batched = True

    def __init__(self, dtype):
        super().__init__()
        self.dtype = dtype

    def forward(self, image):
        return convert_image_dtype(image, self.dtype)

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
        super().__init__()
        if any(value == 0 for value in rl.as_tensor(std).flatten().tolist()):
            raise ValueError(
                f"Normalize: std {std} has a zero, leading to division by zero"
            )
        self.mean = mean
        self.std = std
        self.inplace = inplace

    def forward(self, image):
        return normalize(image, self.mean, self.std, self.inplace)

    def batch(self, images):
        return self(images)

    def __repr__(self):
        return f"Normalize(mean={self.mean}, std={self.std})"


class Lambda(Transform):
    """A function as a transform."""

    def __init__(self, lambd: Callable):
        super().__init__()
        if not callable(lambd):
            raise TypeError(
                f"Argument lambd should be callable, got {type(lambd).__name__!r}"
            )
        self.lambd = lambd

    def forward(self, image):
        return self.lambd(image)


class ToPILImage(Transform):
    """A tensor (channels, height, width) or an array with the channels last for Pillow.

    Args:
        mode: Pillow's name of what the numbers are; by their count where left out.
    """

    takes_tensor = True

    def __init__(self, mode: str | None = None):
        super().__init__()
        self.mode = mode

    def forward(self, image):
        return to_pil_image(image, self.mode)

    def __repr__(self):
        named = "" if self.mode is None else f"mode={self.mode}"
        return f"ToPILImage({named})"


def normalize(tensor, mean, std, inplace: bool = False) -> Any:
    """Each channel less its mean, over its standard deviation."""
    if not isinstance(tensor, rl.Tensor):
        raise TypeError(f"Normalize: img should be Tensor Image. Got {type(tensor)}")
    if not tensor.is_floating_point():
        raise TypeError(
            "Normalize: input tensor should be a float tensor. "
            f"Got {tensor.dtype}.\n"
            "  put ToTensor() before it"
        )
    if tensor.dim() < 3:
        raise ValueError(
            "Normalize: expected tensor to be a tensor image of size "
            f"(..., C, H, W). Got tensor.size() = {tuple(tensor.shape)}"
        )
    middle, spread = (
        rl.as_tensor(values, dtype=tensor.dtype, device=tensor.device)
        for values in (mean, std)
    )
    if (spread == 0).any():
        raise ValueError(
            f"Normalize: std {std} evaluated to zero in {tensor.dtype}, leading to "
            "division by zero"
        )
    middle, spread = (
        values.view(-1, 1, 1) if values.dim() == 1 else values
        for values in (middle, spread)
    )
    result: Any = tensor if inplace else tensor.clone()
    return result.sub_(middle).div_(spread)


def largest(dtype) -> float:
    """The number that stands for white in an image of a type."""
    return 1 if dtype.is_floating_point else rl.iinfo(dtype).max


def convert_image_dtype(image, dtype=rl.float32):
    """An image of another type, its range kept.

    Raises:
        RuntimeError: the floats do not tell as many numbers apart as the integers.

    >>> from rushlight.transforms.functional import convert_image_dtype
    >>> convert_image_dtype(rl.tensor([0, 255], dtype=rl.uint8))
    tensor([0., 1.])
    """
    if not isinstance(image, rl.Tensor):
        raise TypeError("Input img should be Tensor Image")
    kind = image.dtype
    if kind == dtype:
        return image
    if kind.is_floating_point:
        if dtype.is_floating_point:
            return image.to(dtype)
        unsafe = {rl.float32: (rl.int32, rl.int64), rl.float64: (rl.int64,)}
        if dtype in unsafe.get(kind, ()):
            raise RuntimeError(
                f"The cast from {kind} to {dtype} cannot be performed safely."
            )
        # All numbers get about as wide a range of shares, the last one, too.
        return image.mul(largest(dtype) + 1.0 - 1e-3).to(dtype)
    if dtype.is_floating_point:
        return image.to(dtype) / largest(kind)
    own, other = int(largest(kind)) + 1, int(largest(dtype)) + 1
    if own > other:
        return rl.div(image, own // other, rounding_mode="floor").to(dtype)
    return image.to(dtype) * (other // own)


# By the number of channels: the mode that is meant, and others that may be asked for.
_MODES = {2: ("LA",), 3: ("RGB", "YCbCr", "HSV"), 4: ("RGBA", "CMYK", "RGBX")}
_GREYS = {"uint8": "L", "int16": "I;16", "int32": "I", "float32": "F"}


def to_pil_image(pic, mode: str | None = None):
    """A tensor (channels, height, width) or an array with the channels last for Pillow.

    Args:
        pic: floats are shares of white.
        mode: Pillow's name of what the numbers are; by their count where left out.

    Raises:
        TypeError: it is neither, or of a type that Pillow does not know.
        ValueError: it has other dimensions, or channels that the mode has not.
    """
    try:
        from PIL import Image
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "an pic as a Pillow pic needs Pillow: pip install pillow\n"
            "  or start the transform with ToTensor(), which takes the pixels as "
            "they are"
        ) from None
    import numpy

    if not isinstance(pic, (rl.Tensor, numpy.ndarray)):
        raise TypeError(f"pic should be Tensor or ndarray. Got {type(pic)}.")
    if pic.ndim not in (2, 3):
        raise ValueError(f"pic should be 2/3 dimensional. Got {pic.ndim} dimensions.")
    if isinstance(pic, rl.Tensor):
        if pic.is_floating_point() and mode != "F":
            pic = pic.mul(255).to(rl.uint8)
        pic = pic.unsqueeze(0) if pic.dim() == 2 else pic
        pic = pic.permute(1, 2, 0).contiguous().cpu().numpy()
    elif pic.ndim == 2:
        pic = pic[:, :, None]
    channels = pic.shape[2]
    if channels > 4:
        raise ValueError(f"pic should not have > 4 channels. Got {channels} channels.")
    mode = _pillow_mode(pic.dtype.name, channels, mode)
    if channels == 1:
        return Image.fromarray(pic[:, :, 0])
    height, width, _ = pic.shape
    return Image.frombytes(mode, (width, height), pic.tobytes())


def _pillow_mode(kind, channels, mode):
    if channels == 1:
        own = _GREYS.get(kind)
        if mode is not None and mode != own:
            raise ValueError(
                f"Incorrect mode ({mode}) supplied for input type {kind}. Should be {own}"
            )
        mode = own
    else:
        allowed = _MODES[channels]
        if mode is not None and mode not in allowed:
            raise ValueError(
                f"Only modes {list(allowed)} are supported for {channels}D inputs"
            )
        if mode is None and kind == "uint8":
            mode = allowed[0]
    if mode is None:
        raise TypeError(f"Input type {kind} is not supported")
    return mode


def to_tensor(pic):
    """An image as a tensor (channels, height, width); bytes become floats in [0, 1]."""
    if getattr(pic, "mode", None) == "1":  # of one bit: black and white
        pic = pic.convert("L")
    return as_fraction(channels_first(pixels(pic), 0))


def pil_to_tensor(pic):
    """A Pillow image as a tensor (channels, height, width) with the numbers it has."""
    if not type(pic).__module__.startswith("PIL."):
        raise TypeError(f"pic should be PIL Image. Got {type(pic)}")
    return channels_first(pixels(pic), 0)


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
