"""timm's Swin transformer."""

import timm
from common import train_on_images

train_on_images(
    lambda: timm.models.SwinTransformer(
        img_size=64,
        window_size=4,
        embed_dim=24,
        depths=(1, 1),
        num_heads=(2, 4),
        num_classes=4,
    )
)
