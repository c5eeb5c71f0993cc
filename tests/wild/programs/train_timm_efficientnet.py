"""timm's EfficientNet."""

import timm
from common import train_on_images

train_on_images(lambda: timm.create_model("efficientnet_lite0", num_classes=4))
