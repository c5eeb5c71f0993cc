"""ViT of transformers."""

import torch
import transformers
from common import images, train

torch.manual_seed(0)
config = transformers.ViTConfig(
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=64,
    image_size=64,
    patch_size=16,
    num_labels=4,
)
model = transformers.ViTForImageClassification(config)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

x, y = images()


def loss():
    return torch.nn.functional.cross_entropy(model(x).logits, y)


train(optimizer, loss)
