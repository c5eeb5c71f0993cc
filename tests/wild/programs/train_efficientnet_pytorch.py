"""efficientnet-pytorch's EfficientNet."""

import torch
from common import images, train
from efficientnet_pytorch import EfficientNet

torch.manual_seed(0)
model = EfficientNet.from_name("efficientnet-b0", num_classes=4)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

x, y = images()


def loss():
    return torch.nn.functional.cross_entropy(model(x), y)


train(optimizer, loss)
