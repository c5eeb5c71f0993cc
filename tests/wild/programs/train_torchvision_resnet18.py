"""torchvision's ResNet-18."""

import torch
import torchvision
from common import train_on_images

train_on_images(
    lambda: torchvision.models.resnet18(num_classes=4),
    change=lambda model: torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9),
)
