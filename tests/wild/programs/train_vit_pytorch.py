"""vit-pytorch's transformer."""

import torch
from common import images, train
from vit_pytorch import ViT

torch.manual_seed(0)
model = ViT(
    image_size=64,
    patch_size=16,
    num_classes=4,
    dim=32,
    depth=2,
    heads=4,
    mlp_dim=64,
    dropout=0.1,
)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

x, y = images()


def loss():
    return torch.nn.functional.cross_entropy(model(x), y)


train(optimizer, loss)
