"""timm's MLP-Mixer."""

import timm
import torch
from common import images, train

torch.manual_seed(0)
model = timm.models.MlpMixer(
    img_size=64, patch_size=16, num_blocks=2, embed_dim=64, num_classes=4
)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

x, y = images()


def loss():
    return torch.nn.functional.cross_entropy(model(x), y)


train(optimizer, loss)
