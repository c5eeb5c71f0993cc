"""timm's ConvNeXt."""

import timm
from common import train_on_images

train_on_images(lambda: timm.create_model("convnext_atto", num_classes=4))
