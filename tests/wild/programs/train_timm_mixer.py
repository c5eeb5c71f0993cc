"""timm's MLP-Mixer."""

import timm
from common import train_on_images

train_on_images(
    lambda: timm.models.MlpMixer(
        img_size=64, patch_size=16, num_blocks=2, embed_dim=64, num_classes=4
    )
)
