"""efficientnet-pytorch's EfficientNet."""

from common import train_on_images
from efficientnet_pytorch import EfficientNet

train_on_images(lambda: EfficientNet.from_name("efficientnet-b0", num_classes=4))
