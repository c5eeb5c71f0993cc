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

__all__ = [
    "Compose",
    "ConvertImageDtype",
    "Lambda",
    "Normalize",
    "PILToTensor",
    "ToPILImage",
    "ToTensor",
    "Transform",
]
