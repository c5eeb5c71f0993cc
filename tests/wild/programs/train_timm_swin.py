"""timm's Swin transformer."""

import timm
import torch
from common import images, train

torch.manual_seed(0)
model = timm.models.SwinTransformer(
    img_size=64,
    window_size=4,
    embed_dim=24,
    depths=(1, 1),
    num_heads=(2, 4),
    num_classes=4,
)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

x, y = images()


def loss():
    return torch.nn.functional.cross_entropy(model(x), y)


train(optimizer, loss)
