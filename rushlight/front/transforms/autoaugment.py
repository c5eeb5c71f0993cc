"""Changes of images drawn from a list of them: augmentation that nobody has to tune.

What may be drawn, how strong it is and the order of the draws are torchvision's, so that
a seed gives the same pictures. Tensors are of bytes, with one or three channels.
"""

import math
from enum import Enum

import rushlight as rl
from rushlight.transforms.affine import affine, fill_of, rotate
from rushlight.transforms.colours import (
    adjust_brightness,
    adjust_contrast,
    adjust_saturation,
    adjust_sharpness,
    autocontrast,
    equalize,
    invert,
    posterize,
    solarize,
)
from rushlight.transforms.geometry import random_below, size_of
from rushlight.transforms.modes import InterpolationMode, mode_of
from rushlight.transforms.transforms import Transform, pil_to_tensor, to_pil_image


class AutoAugmentPolicy(Enum):
    """The collections of images that a policy was learnt from."""

    IMAGENET = "imagenet"
    CIFAR10 = "cifar10"
    SVHN = "svhn"


# A line is one policy: two changes, each with how many times in ten it is made and, where
# it has one, the number of its strength. From "AutoAugment: Learning Augmentation
# Strategies from Data" (Cubuk and others, 2019), as torchvision has them.
_POLICIES = {
    AutoAugmentPolicy.IMAGENET: """
        Posterize 4 8; Rotate 6 9
        Solarize 6 5; AutoContrast 6
        Equalize 8; Equalize 6
        Posterize 6 7; Posterize 6 6
        Equalize 4; Solarize 2 4
        Equalize 4; Rotate 8 8
        Solarize 6 3; Equalize 6
        Posterize 8 5; Equalize 10
        Rotate 2 3; Solarize 6 8
        Equalize 6; Posterize 4 6
        Rotate 8 8; Color 4 0
        Rotate 4 9; Equalize 6
        Equalize 0; Equalize 8
        Invert 6; Equalize 10
        Color 6 4; Contrast 10 8
        Rotate 8 8; Color 10 2
        Color 8 8; Solarize 8 7
        Sharpness 4 7; Invert 6
        ShearX 6 5; Equalize 10
        Color 4 0; Equalize 6
        Equalize 4; Solarize 2 4
        Solarize 6 5; AutoContrast 6
        Invert 6; Equalize 10
        Color 6 4; Contrast 10 8
        Equalize 8; Equalize 6
    """,
    AutoAugmentPolicy.CIFAR10: """
        Invert 1; Contrast 2 6
        Rotate 7 2; TranslateX 3 9
        Sharpness 8 1; Sharpness 9 3
        ShearY 5 8; TranslateY 7 9
        AutoContrast 5; Equalize 9
        ShearY 2 7; Posterize 3 7
        Color 4 3; Brightness 6 7
        Sharpness 3 9; Brightness 7 9
        Equalize 6; Equalize 5
        Contrast 6 7; Sharpness 6 5
        Color 7 7; TranslateX 5 8
        Equalize 3; AutoContrast 4
        TranslateY 4 3; Sharpness 2 6
        Brightness 9 6; Color 2 8
        Solarize 5 2; Invert 0
        Equalize 2; AutoContrast 6
        Equalize 2; Equalize 6
        Color 9 9; Equalize 6
        AutoContrast 8; Solarize 2 8
        Brightness 1 3; Color 7 0
        Solarize 4 5; AutoContrast 9
        TranslateY 9 9; TranslateY 7 9
        AutoContrast 9; Solarize 8 3
        Equalize 8; Invert 1
        TranslateY 7 9; AutoContrast 9
    """,
    AutoAugmentPolicy.SVHN: """
        ShearX 9 4; Invert 2
        ShearY 9 8; Invert 7
        Equalize 6; Solarize 6 6
        Invert 9; Equalize 6
        Equalize 6; Rotate 9 3
        ShearX 9 4; AutoContrast 8
        ShearY 9 8; Invert 4
        ShearY 9 5; Solarize 2 6
        Invert 9; AutoContrast 8
        Equalize 6; Rotate 9 3
        ShearX 9 4; Solarize 3 3
        ShearY 8 8; Invert 7
        Equalize 9; TranslateY 6 6
        Invert 9; Equalize 6
        Contrast 3 3; Rotate 8 4
        Invert 8; TranslateY 0 2
        ShearY 7 6; Solarize 4 8
        Invert 6; Rotate 8 4
        ShearY 3 7; TranslateX 9 3
        ShearX 1 6; Invert 6
        Solarize 7 2; TranslateY 6 7
        ShearY 8 4; Invert 8
        ShearX 7 9; TranslateY 8 3
        ShearY 8 5; AutoContrast 7
        ShearX 7 2; Invert 1
    """,
}


def _read_policies(text):
    """Pairs of a change's name, its probability and the number of its strength."""
    policies = []
    for line in text.strip().splitlines():
        pair = []
        for change in line.split(";"):
            name, tenths, *strength = change.split()
            pair.append(
                (name, int(tenths) / 10, int(strength[0]) if strength else None)
            )
        policies.append(tuple(pair))
    return policies


_COLOURS = {
    "Brightness": adjust_brightness,
    "Color": adjust_saturation,
    "Contrast": adjust_contrast,
    "Sharpness": adjust_sharpness,
}
_PLAIN = {"AutoContrast": autocontrast, "Equalize": equalize, "Invert": invert}


def changed(image, name, strength, interpolation, fill):
    """An image after one change of a strength.

    Raises:
        ValueError: there is no such change.
    """
    if name in _COLOURS:
        return _COLOURS[name](image, 1.0 + strength)
    if name in _PLAIN:
        return _PLAIN[name](image)
    if name == "Identity":
        return image
    if name == "Posterize":
        return posterize(image, int(strength))
    if name == "Solarize":
        return solarize(image, strength)
    if name == "Rotate":
        return rotate(image, strength, interpolation, fill=fill)
    shift, shear, centre = [0, 0], [0.0, 0.0], None
    if name in ("ShearX", "ShearY"):
        # The strength is a slope, and the upper left corner stays where it is.
        shear[name == "ShearY"] = math.degrees(math.atan(strength))
        centre = [0, 0]
    elif name in ("TranslateX", "TranslateY"):
        shift[name == "TranslateY"] = int(strength)
    else:
        raise ValueError(f"The provided operator {name} is not recognized.")
    return affine(image, 0.0, shift, 1.0, shear, interpolation, fill, centre)


def _strengths(bins, sizes, most, bits):
    """How strong each change is from the weakest to the strongest, and if it has a sign.

    Args:
        bins: how many strengths there are.
        sizes: how far the image moves down and to the right at most.
        most: the largest slope, angle and share of a colour.
        bits: how many bits of a colour stay at least, and at most.

    A change without strengths has an empty list.
    """
    slope, angle, share = most
    least, all_bits = bits
    kept = rl.arange(bins) / ((bins - 1) / (all_bits - least))

    def ramp(top):
        return rl.linspace(0.0, top, bins).tolist()

    return {
        "Identity": ([], False),
        "ShearX": (ramp(slope), True),
        "ShearY": (ramp(slope), True),
        "TranslateX": (ramp(sizes[1]), True),
        "TranslateY": (ramp(sizes[0]), True),
        "Rotate": (ramp(angle), True),
        "Brightness": (ramp(share), True),
        "Color": (ramp(share), True),
        "Contrast": (ramp(share), True),
        "Sharpness": (ramp(share), True),
        "Posterize": ((all_bits - kept.round()).tolist(), False),
        "Solarize": (rl.linspace(255.0, 0.0, bins).tolist(), False),
        "AutoContrast": ([], False),
        "Equalize": ([], False),
        "Invert": ([], False),
    }


class _Drawn(Transform):
    """What the transforms here share: how pixels are made up, and what fills the rest."""

    def __init__(self, interpolation, fill):
        super().__init__()
        self.interpolation = mode_of(interpolation)
        self.fill = fill

    def changed(self, image, name, strength):
        """An image after one change."""
        fill = fill_of(self.fill, image)
        return changed(image, name, strength, self.interpolation, fill)

    def __repr__(self):
        named = ", ".join(f"{name}={getattr(self, name)}" for name in self.printed)
        return f"{type(self).__name__}({named})"


def _either_way(strength, signed):
    """A strength, negative where it has a sign and that is drawn so."""
    return -strength if signed and random_below(2) else strength


class AutoAugment(_Drawn):
    """An image after one of the policies learnt for a collection of images.

    Args:
        policy: the collection.
        interpolation: how pixels between pixels are made up.
        fill: what goes where nothing was; black if left out.

    Raises:
        ValueError: there is no such collection.
    """

    printed = ("policy", "fill")

    def __init__(
        self,
        policy=AutoAugmentPolicy.IMAGENET,
        interpolation=InterpolationMode.NEAREST,
        fill=None,
    ):
        super().__init__(interpolation, fill)
        if policy not in _POLICIES:
            raise ValueError(f"The provided policy {policy} is not recognized.")
        self.policy = policy
        self.policies = _read_policies(_POLICIES[policy])

    @staticmethod
    def get_params(transform_num: int):
        """A policy's number, whether its two changes are made, and their signs."""
        number = random_below(transform_num)
        return number, rl.rand((2,)), rl.randint(2, (2,))

    def forward(self, image):
        number, chances, signs = self.get_params(len(self.policies))
        far = [150.0 / 331.0 * size for size in size_of(image)]
        strengths = _strengths(10, far, (0.3, 30.0, 0.9), (4, 8))
        drawn = zip(self.policies[number], chances, signs)
        for (name, likely, which), chance, sign in drawn:
            # in float32, as the chance is
            if bool(chance <= likely):
                levels, signed = strengths[name]
                strength = 0.0 if which is None else levels[which]
                if signed and sign == 0:
                    strength = -strength
                image = self.changed(image, name, strength)
        return image


class RandAugment(_Drawn):
    """An image after some changes drawn one by one, all of one strength.

    Args:
        num_ops: how many.
        magnitude: the number of the strength.
        num_magnitude_bins: how many strengths there are.
        interpolation: how pixels between pixels are made up.
        fill: what goes where nothing was; black if left out.
    """

    printed = ("num_ops", "magnitude", "num_magnitude_bins", "interpolation", "fill")

    def __init__(
        self,
        num_ops: int = 2,
        magnitude: int = 9,
        num_magnitude_bins: int = 31,
        interpolation=InterpolationMode.NEAREST,
        fill=None,
    ):
        super().__init__(interpolation, fill)
        self.num_ops = num_ops
        self.magnitude = magnitude
        self.num_magnitude_bins = num_magnitude_bins

    def forward(self, image):
        far = [150.0 / 331.0 * size for size in size_of(image)]
        strengths = _strengths(self.num_magnitude_bins, far, (0.3, 30.0, 0.9), (4, 8))
        del strengths["Invert"]
        names = list(strengths)
        for _ in range(self.num_ops):
            name = names[random_below(len(names))]
            levels, signed = strengths[name]
            strength = levels[self.magnitude] if levels else 0.0
            image = self.changed(image, name, _either_way(strength, signed))
        return image


class TrivialAugmentWide(_Drawn):
    """An image after one change of any strength.

    Args:
        num_magnitude_bins: how many strengths there are.
        interpolation: how pixels between pixels are made up.
        fill: what goes where nothing was; black if left out.
    """

    printed = ("num_magnitude_bins", "interpolation", "fill")

    def __init__(
        self,
        num_magnitude_bins: int = 31,
        interpolation=InterpolationMode.NEAREST,
        fill=None,
    ):
        super().__init__(interpolation, fill)
        self.num_magnitude_bins = num_magnitude_bins

    def forward(self, image):
        strengths = _strengths(
            self.num_magnitude_bins, (32.0, 32.0), (0.99, 135.0, 0.99), (2, 8)
        )
        del strengths["Invert"]
        names = list(strengths)
        name = names[random_below(len(names))]
        levels, signed = strengths[name]
        strength = levels[random_below(len(levels))] if levels else 0.0
        return self.changed(image, name, _either_way(strength, signed))


class AugMix(_Drawn):
    """An image mixed with several others made of it by chains of changes.

    Args:
        severity: strengths up to this number are drawn, of ten.
        mixture_width: how many chains.
        chain_depth: how many changes a chain has; one to three where it is negative.
        alpha: how evenly the shares are drawn.
        all_ops: whether changes of colour are drawn, too.
        interpolation: how pixels between pixels are made up.
        fill: what goes where nothing was; black if left out.

    Raises:
        ValueError: there is no such severity.
    """

    printed = (
        "severity",
        "mixture_width",
        "chain_depth",
        "alpha",
        "all_ops",
        "interpolation",
        "fill",
    )
    _levels = 10

    def __init__(
        self,
        severity: int = 3,
        mixture_width: int = 3,
        chain_depth: int = -1,
        alpha: float = 1.0,
        all_ops: bool = True,
        interpolation=InterpolationMode.BILINEAR,
        fill=None,
    ):
        super().__init__(interpolation, fill)
        if not 1 <= severity <= self._levels:
            raise ValueError(
                f"The severity must be between [1, {self._levels}]. Got {severity} "
                "instead."
            )
        self.severity = severity
        self.mixture_width = mixture_width
        self.chain_depth = chain_depth
        self.alpha = alpha
        self.all_ops = all_ops

    def _changes(self, image):
        """What may be drawn: colours last, and neither nothing nor the negative."""
        far = [size / 3.0 for size in size_of(image)]
        strengths = _strengths(self._levels, far, (0.3, 30.0, 0.9), (0, 4))
        del strengths["Identity"], strengths["Invert"]
        colours = {name: strengths.pop(name) for name in _COLOURS}
        return strengths | colours if self.all_ops else strengths

    def _shares(self, count, rows):
        return rl._sample_dirichlet(
            rl.full((count,), float(self.alpha)).expand(rows, -1)
        )

    def forward(self, image):
        tensor = image if isinstance(image, rl.Tensor) else pil_to_tensor(image)
        batch = tensor.view([1] * max(4 - tensor.dim(), 0) + list(tensor.shape))
        rows, each = batch.size(0), [batch.size(0)] + [1] * (batch.dim() - 1)
        strengths = self._changes(image)
        own = self._shares(2, rows)
        shares = self._shares(self.mixture_width, rows) * own[:, 1:]
        mixed = own[:, 0].view(each) * batch
        for chain in range(self.mixture_width):
            made = self._chained(batch, strengths)
            mixed.add_(shares[:, chain].view(each) * made)
        mixed = mixed.view(tensor.shape).to(tensor.dtype)
        return mixed if tensor is image else to_pil_image(mixed)

    def _chained(self, image, strengths):
        names = list(strengths)
        depth = self.chain_depth
        for _ in range(depth if depth > 0 else 1 + random_below(3)):
            name = names[random_below(len(names))]
            levels, signed = strengths[name]
            strength = levels[random_below(self.severity)] if levels else 0.0
            image = self.changed(image, name, _either_way(strength, signed))
        return image
