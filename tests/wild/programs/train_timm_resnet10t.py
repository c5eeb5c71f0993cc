"""timm's ResNet."""

import timm
from common import train_on_images

train_on_images(lambda: timm.create_model("resnet10t", num_classes=4))
