"""A U-Net of segmentation-models-pytorch."""

import segmentation_models_pytorch as smp
import torch
from common import train

torch.manual_seed(0)
model = smp.Unet(
    "resnet18", encoder_weights=None, classes=4, decoder_channels=(32, 16, 8, 8, 4)
)
criterion = smp.losses.DiceLoss("multiclass")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
torch.manual_seed(1)
x, y = torch.randn(2, 3, 64, 64), torch.randint(0, 4, (2, 64, 64))


def loss():
    return criterion(model(x), y)


train(optimizer, loss)
