"""torchvision's MobileNet."""

import torch
import torchvision
from common import images, train

torch.manual_seed(0)
model = torchvision.models.mobilenet_v3_small(num_classes=4)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

x, y = images()


def loss():
    return torch.nn.functional.cross_entropy(model(x), y)


train(optimizer, loss)
