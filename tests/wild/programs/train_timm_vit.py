"""timm's vision transformer."""

import timm
from common import train_on_images

train_on_images(
    lambda: timm.create_model("vit_tiny_patch16_224", num_classes=4, img_size=64)
)
