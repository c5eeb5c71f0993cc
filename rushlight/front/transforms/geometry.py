"""Transforms that cut, turn and resize: Pillow images and tensors (…, H, W) alike."""

import math
import numbers
from collections.abc import Sequence
from typing import Any

import rushlight as rl
from rushlight.transforms.modes import FILTERS, InterpolationMode, mode_of
from rushlight.transforms.transforms import Transform


def size_of(image) -> tuple[int, int]:
    """An image's height and width.

    Raises:
        TypeError: it is neither a tensor nor a Pillow image.
    """
    if isinstance(image, rl.Tensor):
        return image.shape[-2], image.shape[-1]
    if type(image).__module__.startswith("PIL."):
        return image.size[1], image.size[0]
    raise TypeError(f"Unexpected type {type(image)}: pass a tensor or a Pillow image")


def pair(size, name="size") -> tuple[int, int]:
    """Height and width out of one number or two.

    Raises:
        ValueError: there are more.
    """
    if isinstance(size, numbers.Number):
        return int(size), int(size)  # type: ignore[call-overload]
    if len(size) == 1:
        return size[0], size[0]
    if len(size) != 2:
        raise ValueError(f"Please provide only two dimensions (h, w) for {name}.")
    return size[0], size[1]


def crop(img, top: int, left: int, height: int, width: int):
    """A part of an image; what lies outside of it is black."""
    if not isinstance(img, rl.Tensor):
        return img.crop((left, top, left + width, top + height))
    h, w = size_of(img)
    right, bottom = left + width, top + height
    part = img[..., max(top, 0) : bottom, max(left, 0) : right]
    if left < 0 or top < 0 or right > w or bottom > h:
        edges = [
            max(-left + min(0, right), 0),
            max(right - max(w, left), 0),
            max(-top + min(0, bottom), 0),
            max(bottom - max(h, top), 0),
        ]
        part = rl.nn.functional.pad(part, edges)
    return part


def resize(image, height: int, width: int, mode: str, antialias: bool | None = True):
    """An image of another size."""
    if not isinstance(image, rl.Tensor):
        return image.resize((width, height), FILTERS[mode])
    if size_of(image) == (height, width):
        return image
    batch = image.reshape(-1, 1, *image.shape[-2:])
    kind = image.dtype
    if kind not in (rl.float32, rl.float64):
        batch = batch.to(rl.float32)
    options: dict[str, Any] = {}
    if mode in ("bilinear", "bicubic"):
        options = {"align_corners": False, "antialias": bool(antialias)}
    made = rl.nn.functional.interpolate(batch, (height, width), mode=mode, **options)
    if mode == "bicubic" and kind == rl.uint8:
        made = made.clamp(0, 255)
    if made.dtype != kind:
        made = made.round() if not kind.is_floating_point else made
        made = made.to(kind)
    return made.reshape(*image.shape[:-2], height, width)


def flip(image, dim: int):
    """An image turned over: -1 from left to right, -2 upside down."""
    if isinstance(image, rl.Tensor):
        return image.flip(dim)
    return image.transpose(0 if dim == -1 else 1)


def pad(image, edges: Sequence[int], fill=0, mode: str = "constant"):
    """An image with more around it.

    Args:
        image: the image.
        edges: how much left, above, right and below.
        fill: with what, where the mode is constant.
        mode: ``constant``, ``edge``, ``reflect`` or ``symmetric``.
    """
    tensor = isinstance(image, rl.Tensor)
    if min(edges) < 0 and mode != "constant" and (mode == "symmetric" or not tensor):
        image, edges = _cut(image, edges)
    left, top, right, bottom = edges
    if tensor:
        if mode == "symmetric":
            h, w = size_of(image)
            rows = _mirrored(h, top, bottom)
            columns = _mirrored(w, left, right)
            return image[..., rows, :][..., columns]
        named = {"edge": "replicate"}.get(mode, mode)
        around = [left, right, top, bottom]
        if named == "constant":
            return rl.nn.functional.pad(image, around, value=fill)
        batch = image.reshape(1, -1, *image.shape[-2:])
        kind = batch.dtype
        batch = batch if kind.is_floating_point else batch.to(rl.float32)
        made = rl.nn.functional.pad(batch, around, mode=named).to(kind)
        return made.reshape(*image.shape[:-2], *made.shape[-2:])
    if mode == "constant":
        from PIL import ImageOps

        bands = len(image.getbands())
        if isinstance(fill, int) and bands > 1:
            fill = (fill,) * bands
        return ImageOps.expand(image, border=tuple(edges), fill=fill)
    import numpy
    from PIL import Image

    array = numpy.asarray(image)
    widths = [(top, bottom), (left, right)] + [(0, 0)] * (array.ndim - 2)
    return Image.fromarray(numpy.pad(array, widths, mode=mode))  # type: ignore[call-overload]


def _cut(image, edges):
    """An image without what its negative edges take away, and the other edges."""
    left, top, right, bottom = (max(-edge, 0) for edge in edges)
    height, width = size_of(image)
    image = crop(image, top, left, height - top - bottom, width - left - right)
    return image, [max(edge, 0) for edge in edges]


def _mirrored(size, before, after):
    """Places of a row that goes on as its own mirror image at both ends."""
    positions = list(range(size))
    return rl.tensor(positions[:before][::-1] + positions + positions[::-1][:after])


def random_below(bound: int) -> int:
    """A whole number from 0 on, drawn from the default generator."""
    return int(rl.randint(0, bound, size=(1,)).item())


def uniform(low: float, high: float) -> float:
    """A number between two, drawn from the default generator."""
    return float(rl.empty(1).uniform_(low, high).item())


class Resize(Transform):
    """An image of another size.

    Args:
        size: height and width; one number is the shorter side's, in proportion.
        interpolation: how pixels between pixels are made up.
        max_size: the longer side is at most so long.
        antialias: tensors are smoothed as they shrink; Pillow images are anyway.
    """

    def __init__(
        self,
        size,
        interpolation=InterpolationMode.BILINEAR,
        max_size=None,
        antialias=True,
    ):
        super().__init__()
        if not isinstance(size, (int, Sequence)):
            raise TypeError(f"Size should be int or sequence. Got {type(size)}")
        if isinstance(size, Sequence) and len(size) not in (1, 2):
            raise ValueError("If size is a sequence, it should have 1 or 2 values")
        self.size = size
        self.interpolation = mode_of(interpolation)
        self.max_size = max_size
        self.antialias = antialias

    def forward(self, image):
        sizes = sizes_of(image, self.size, self.max_size)
        return resize(image, *sizes, self.interpolation.value, self.antialias)

    def __repr__(self):
        return (
            f"Resize(size={self.size}, interpolation={self.interpolation.value}, "
            f"max_size={self.max_size}, antialias={self.antialias})"
        )


def sizes_of(image, wanted, max_size=None) -> tuple[int, int]:
    """Height and width of an image once resized.

    Raises:
        ValueError: the longer side cannot be kept short enough.
    """
    height, width = size_of(image)
    if isinstance(wanted, Sequence) and len(wanted) == 2:
        if max_size is not None:
            raise ValueError(
                "max_size should only be passed if size specifies the length of the "
                "smaller edge, i.e. size should be an int or a sequence of length 1 in "
                "torchscript mode."
            )
        return wanted[0], wanted[1]
    short = wanted[0] if isinstance(wanted, Sequence) else wanted
    long = int(short * max(height, width) / min(height, width))
    if max_size is not None:
        if max_size <= short:
            raise ValueError(
                f"max_size = {max_size} must be strictly greater than the "
                f"requested size for the smaller edge size = {short}"
            )
        if long > max_size:
            short, long = int(max_size * short / long), max_size
    return (short, long) if height <= width else (long, short)


class CenterCrop(Transform):
    """The middle of an image; a smaller one gets black around it."""

    def __init__(self, size):
        super().__init__()
        self.size = pair(size)

    def forward(self, image):
        return center_crop(image, self.size)

    def __repr__(self):
        return f"CenterCrop(size={self.size})"


def center_crop(img, output_size):
    """The middle of an image; a smaller one gets black around it."""
    (height, width), (h, w) = size_of(img), pair(output_size)
    if w > width or h > height:
        across, down = max(w - width, 0), max(h - height, 0)
        img = pad(img, [across // 2, down // 2, (across + 1) // 2, (down + 1) // 2])
        height, width = size_of(img)
        if (height, width) == (h, w):
            return img
    top, left = round((height - h) / 2.0), round((width - w) / 2.0)
    return crop(img, top, left, h, w)


class Pad(Transform):
    """An image with more around it.

    Args:
        padding: for all sides; or left and right, above and below; or one by one: left,
            above, right, below.
        fill: with what.
        padding_mode: ``constant``, ``edge``, ``reflect`` or ``symmetric``.
    """

    def __init__(self, padding, fill=0, padding_mode="constant"):
        super().__init__()
        if padding_mode not in ("constant", "edge", "reflect", "symmetric"):
            raise ValueError(
                "Padding mode should be either constant, edge, reflect or symmetric"
            )
        self.padding = padding
        self.fill = fill
        self.padding_mode = padding_mode

    def forward(self, image):
        return pad(image, edges_of(self.padding), self.fill, self.padding_mode)

    def __repr__(self):
        return (
            f"Pad(padding={self.padding}, fill={self.fill}, "
            f"padding_mode={self.padding_mode})"
        )


def edges_of(padding) -> list[int]:
    """Left, above, right and below out of one number, two or four.

    Raises:
        ValueError: there are three, or more.
    """
    if isinstance(padding, int):
        return [padding] * 4
    if len(padding) not in (1, 2, 4):
        raise ValueError(
            "Padding must be an int or a 1, 2, or 4 element tuple, not a "
            f"{len(padding)} element tuple"
        )
    return list(padding) * (4 // len(padding))


class RandomCrop(Transform):
    """A part of an image, somewhere.

    Args:
        size: of the part.
        padding: what the image gets around it first.
        pad_if_needed: an image that is too small gets more around it.
        fill: with what.
        padding_mode: as for ``Pad``.
    """

    def __init__(
        self, size, padding=None, pad_if_needed=False, fill=0, padding_mode="constant"
    ):
        super().__init__()
        self.size = pair(size)
        self.padding = padding
        self.pad_if_needed = pad_if_needed
        self.fill = fill
        self.padding_mode = padding_mode

    def forward(self, image):
        h, w = self.size
        if self.padding is not None:
            edges = edges_of(self.padding)
            image = pad(image, edges, self.fill, self.padding_mode)
        height, width = size_of(image)
        if self.pad_if_needed and width < w:
            image = pad(
                image, [w - width, 0, w - width, 0], self.fill, self.padding_mode
            )
        if self.pad_if_needed and height < h:
            edges = [0, h - height, 0, h - height]
            image = pad(image, edges, self.fill, self.padding_mode)
        return crop(image, *self.get_params(image, (h, w)))

    @staticmethod
    def get_params(img, output_size) -> tuple[int, int, int, int]:
        """Where a part of a size begins, and its height and width.

        Raises:
            ValueError: the image is smaller.
        """
        (height, width), (h, w) = size_of(img), output_size
        if height < h or width < w:
            raise ValueError(
                f"Required crop size {(h, w)} is larger than input image size "
                f"{(height, width)}"
            )
        if (height, width) == (h, w):
            return 0, 0, h, w
        return random_below(height - h + 1), random_below(width - w + 1), h, w

    def __repr__(self):
        return f"RandomCrop(size={self.size}, padding={self.padding})"


class RandomResizedCrop(Transform):
    """A part of an image of any size and shape, resized.

    Args:
        size: of the result.
        scale: the part's share of the area, least and most.
        ratio: its width over its height, least and most.
        interpolation: as for ``Resize``.
        antialias: as for ``Resize``.
    """

    def __init__(
        self,
        size,
        scale=(0.08, 1.0),
        ratio=(3 / 4, 4 / 3),
        interpolation=InterpolationMode.BILINEAR,
        antialias=True,
    ):
        super().__init__()
        self.size = pair(size)
        self.scale = scale
        self.ratio = ratio
        self.interpolation = mode_of(interpolation)
        self.antialias = antialias

    @staticmethod
    def get_params(img, scale, ratio) -> tuple[int, int, int, int]:
        """Where a part begins, and its height and width."""
        height, width = size_of(img)
        bounds = rl.log(rl.tensor(ratio)).tolist()
        for _ in range(10):
            area = height * width * uniform(*scale)
            shape = math.exp(uniform(*bounds))
            w, h = round(math.sqrt(area * shape)), round(math.sqrt(area / shape))
            if 0 < w <= width and 0 < h <= height:
                top, left = random_below(height - h + 1), random_below(width - w + 1)
                return top, left, h, w
        shape = width / height
        w, h = width, height
        if shape < min(ratio):
            h = round(w / min(ratio))
        elif shape > max(ratio):
            w = round(h * max(ratio))
        return (height - h) // 2, (width - w) // 2, h, w

    def forward(self, image):
        part = crop(image, *self.get_params(image, self.scale, self.ratio))
        return resize(part, *self.size, self.interpolation.value, self.antialias)

    def __repr__(self):
        return (
            f"RandomResizedCrop(size={self.size}, "
            f"scale={tuple(round(each, 4) for each in self.scale)}, "
            f"ratio={tuple(round(each, 4) for each in self.ratio)}, "
            f"interpolation={self.interpolation.value}, antialias={self.antialias})"
        )


class RandomHorizontalFlip(Transform):
    """An image turned from left to right, or left as it is.

    Args:
        p: how likely it is turned.
    """

    dim = -1

    def __init__(self, p: float = 0.5):
        super().__init__()
        self.p = p

    def forward(self, image):
        return flip(image, self.dim) if rl.rand(1).item() < self.p else image

    def __repr__(self):
        return f"{type(self).__name__}(p={self.p})"


class RandomVerticalFlip(RandomHorizontalFlip):
    """An image turned upside down, or left as it is."""

    dim = -2


class Grayscale(Transform):
    """An image without colours.

    Args:
        num_output_channels: 1, or 3 of the same.
    """

    def __init__(self, num_output_channels: int = 1):
        super().__init__()
        self.num_output_channels = num_output_channels

    def forward(self, image):
        return rgb_to_grayscale(image, self.num_output_channels)

    def __repr__(self):
        return f"Grayscale(num_output_channels={self.num_output_channels})"


def rgb_to_grayscale(img, num_output_channels: int = 1):
    """An image without colours, in one channel or three of the same.

    Raises:
        ValueError: another number of channels is asked for.
    """
    if num_output_channels not in (1, 3):
        raise ValueError("num_output_channels should be either 1 or 3")
    if not isinstance(img, rl.Tensor):
        grey = img.convert("L")
        if num_output_channels == 1:
            return grey
        from PIL import Image

        return Image.merge("RGB", [grey] * 3)
    if img.shape[-3] == 3:
        red, green, blue = img.unbind(-3)
        grey = 0.2989 * red + 0.587 * green + 0.114 * blue
        img = grey.to(img.dtype).unsqueeze(-3)
    if num_output_channels == 3:
        return img.expand(*img.shape[:-3], 3, *img.shape[-2:])
    return img


class RandomApply(Transform):
    """Transforms that are done or left out together.

    Args:
        transforms: the transforms.
        p: how likely they are done.
    """

    def __init__(self, transforms, p: float = 0.5):
        super().__init__()
        self.transforms = transforms
        self.p = p

    def forward(self, image):
        if self.p < rl.rand(1).item():
            return image
        for transform in self.transforms:
            image = transform(image)
        return image

    def __repr__(self):
        parts = "".join(f"\n    {part}" for part in self.transforms)
        return f"RandomApply(\n    p={self.p}{parts}\n)"


class RandomErasing(Transform):
    """A rectangle of a tensor is overwritten.

    Args:
        p: how likely.
        scale: its share of the area, least and most.
        ratio: its height over its width, least and most.
        value: with what; ``"random"`` draws every pixel.
        inplace: change the image itself.
    """

    def __init__(
        self, p=0.5, scale=(0.02, 0.33), ratio=(0.3, 3.3), value=0, inplace=False
    ):
        super().__init__()
        if not isinstance(value, (numbers.Number, str, tuple, list)):
            raise TypeError(
                "Argument value should be either a number or str or a sequence"
            )
        if isinstance(value, str) and value != "random":
            raise ValueError("If value is str, it should be 'random'")
        if scale[0] < 0 or scale[1] > 1:
            raise ValueError("Scale should be between 0 and 1")
        if not 0 <= p <= 1:
            raise ValueError("Random erasing probability should be between 0 and 1")
        self.p = p
        self.scale = scale
        self.ratio = ratio
        self.value = value
        self.inplace = inplace

    @staticmethod
    def get_params(img, scale, ratio, value=None):
        """Where a rectangle begins, its height and width, and what goes there.

        ``value`` is a list of a number, or of one for each channel, or None for any.
        Where no rectangle of these sizes fits, it is the image itself.
        """
        channels, height, width = img.shape[-3:]
        bounds = rl.log(rl.tensor(ratio)).tolist()
        for _ in range(10):
            area = height * width * uniform(*scale)
            shape = math.exp(uniform(*bounds))
            h, w = round(math.sqrt(area * shape)), round(math.sqrt(area / shape))
            if not (h < height and w < width):
                continue
            if value is None:
                filled = rl.empty([channels, h, w], dtype=rl.float32).normal_()
            else:
                filled = rl.tensor(value)[:, None, None]
            top, left = random_below(height - h + 1), random_below(width - w + 1)
            return top, left, h, w, filled
        return 0, 0, height, width, img

    def forward(self, image):
        if rl.rand(1).item() >= self.p:
            return image
        value = self.value
        if isinstance(value, numbers.Number):
            value = [float(value)]
        elif value == "random":
            value = None
        else:
            value = [float(each) for each in value]
        if value is not None and len(value) not in (1, image.shape[-3]):
            raise ValueError(
                "If value is a sequence, it should have either a single value or "
                f"{image.shape[-3]} (number of input channels)"
            )
        place = self.get_params(image, self.scale, self.ratio, value)
        return erase(image, *place, self.inplace)

    def __repr__(self):
        return (
            f"RandomErasing(p={self.p}, scale={self.scale}, ratio={self.ratio}, "
            f"value={self.value}, inplace={self.inplace})"
        )


def erase(img, i: int, j: int, h: int, w: int, v, inplace: bool = False):
    """A rectangle of a tensor overwritten.

    Args:
        img: a tensor (…, C, H, W).
        i, j: where the rectangle begins, down and to the right.
        h, w: its height and width.
        v: what goes there.
        inplace: change the image itself.

    Raises:
        TypeError: it is no tensor.
    """
    if not isinstance(img, rl.Tensor):
        raise TypeError("Tensor is not a torch img.")
    img = img if inplace else img.clone()
    img[..., i : i + h, j : j + w] = v
    return img
