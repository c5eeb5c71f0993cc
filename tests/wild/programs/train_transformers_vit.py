"""ViT of transformers."""

import transformers
from common import train_on_images

config = transformers.ViTConfig(
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=64,
    image_size=64,
    patch_size=16,
    num_labels=4,
)
train_on_images(
    lambda: transformers.ViTForImageClassification(config), lambda out: out.logits
)
