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

__all__ = [
    "CenterCrop",
    "Compose",
    "ConvertImageDtype",
    "Grayscale",
    "Lambda",
    "Normalize",
    "PILToTensor",
    "Pad",
    "RandomApply",
    "RandomCrop",
    "RandomErasing",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "RandomVerticalFlip",
    "Resize",
    "ToPILImage",
    "ToTensor",
    "Transform",
]
