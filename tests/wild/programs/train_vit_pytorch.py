"""vit-pytorch's transformer."""

from common import train_on_images
from vit_pytorch import ViT

train_on_images(
    lambda: ViT(
        image_size=64,
        patch_size=16,
        num_classes=4,
        dim=32,
        depth=2,
        heads=4,
        mlp_dim=64,
        dropout=0.1,
    )
)
