"""timm's EfficientNet."""

import timm
import torch
from common import images, train

torch.manual_seed(0)
model = timm.create_model("efficientnet_lite0", num_classes=4)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

x, y = images()


def loss():
    return torch.nn.functional.cross_entropy(model(x), y)


train(optimizer, loss)
