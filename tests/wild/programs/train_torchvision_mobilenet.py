"""torchvision's MobileNet."""

import torchvision
from common import train_on_images

train_on_images(lambda: torchvision.models.mobilenet_v3_small(num_classes=4))
