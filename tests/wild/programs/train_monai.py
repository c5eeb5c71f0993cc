"""Networks, losses and windows of MONAI, and transforms of tensors with metadata."""

import torch
from common import train
from monai.inferers import sliding_window_inference
from monai.losses import DiceCELoss
from monai.networks.nets import SegResNet, UNet
from monai.transforms import Compose, RandAffine, RandRotate, RandZoom, Resize

torch.manual_seed(0)
x, y = torch.randn(2, 1, 32, 32), (torch.rand(2, 1, 32, 32) > 0.5).float()
measure = DiceCELoss(sigmoid=True)
for model in (
    UNet(2, 1, 1, (4, 8, 16), (2, 2), num_res_units=1),
    SegResNet(2, 8, 1, 1, blocks_down=(1, 1), blocks_up=(1,)),
):
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    train(optimizer, lambda: measure(model(x), y), steps=3)  # noqa: B023
print(sliding_window_inference(x, (16, 16), 2, lambda part: part * 2).sum().item())
steps = Compose(
    [
        RandRotate(range_x=0.5, prob=1),
        RandZoom(prob=1),
        RandAffine(prob=1, rotate_range=0.2, padding_mode="zeros"),
        Resize((16, 16)),
    ]
)
steps.set_random_state(0)
print(steps(torch.arange(576.0).reshape(1, 24, 24).sin()).sum().item())
