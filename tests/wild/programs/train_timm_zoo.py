"""Eight families of timm that no other program here has: one loss of each."""

import timm
import torch
from common import images

x, y = images()
for name in (
    "densenet121",
    "mobilenetv3_small_050",
    "regnetx_002",
    "ghostnet_050",
    "mobilevit_xxs",
    "edgenext_xx_small",
    "repvgg_a0",
    "res2net50_26w_4s",
):
    torch.manual_seed(0)
    model = timm.create_model(name, num_classes=4)
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    print(sum(float(p.grad.abs().sum()) for p in model.parameters()) ** 0.5)
