"""Changes to images: Pillow images, arrays and tensors in, tensors out."""

from rushlight.transforms.transforms import (
    Compose,
    ConvertImageDtype,
    Lambda,
    Normalize,
    PILToTensor,
    ToPILImage,
    ToTensor,
    Transform,
)
from rushlight.transforms.geometry import (
    CenterCrop,
    Grayscale,
    Pad,
    RandomApply,
    RandomCrop,
    RandomErasing,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomVerticalFlip,
    Resize,
)

from rushlight.transforms.choices import FiveCrop, RandomChoice, RandomOrder, TenCrop
from rushlight.transforms.colours import (
    ColorJitter,
    GaussianBlur,
    LinearTransformation,
    RandomAdjustSharpness,
    RandomAutocontrast,
    RandomEqualize,
    RandomGrayscale,
    RandomInvert,
    RandomPosterize,
    RandomSolarize,
)
from rushlight.transforms.modes import InterpolationMode
from rushlight.transforms.affine import RandomAffine, RandomRotation
from rushlight.transforms.elastic import ElasticTransform, RandomPerspective
from rushlight.transforms.autoaugment import (
    AugMix,
    AutoAugment,
    AutoAugmentPolicy,
    RandAugment,
    TrivialAugmentWide,
)
from rushlight.transforms import functional

__all__ = [
    "AugMix",
    "AutoAugment",
    "AutoAugmentPolicy",
    "CenterCrop",
    "ColorJitter",
    "Compose",
    "ConvertImageDtype",
    "ElasticTransform",
    "FiveCrop",
    "GaussianBlur",
    "Grayscale",
    "InterpolationMode",
    "Lambda",
    "LinearTransformation",
    "Normalize",
    "PILToTensor",
    "Pad",
    "RandAugment",
    "RandomAdjustSharpness",
    "RandomAffine",
    "RandomApply",
    "RandomAutocontrast",
    "RandomChoice",
    "RandomCrop",
    "RandomEqualize",
    "RandomErasing",
    "RandomGrayscale",
    "RandomHorizontalFlip",
    "RandomInvert",
    "RandomOrder",
    "RandomPerspective",
    "RandomPosterize",
    "RandomResizedCrop",
    "RandomRotation",
    "RandomSolarize",
    "RandomVerticalFlip",
    "Resize",
    "TenCrop",
    "ToPILImage",
    "ToTensor",
    "Transform",
    "TrivialAugmentWide",
    "functional",
]
