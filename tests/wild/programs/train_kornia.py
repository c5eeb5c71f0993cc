"""kornia's filters before a small network."""

import kornia
import torch
from common import images, train

torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.Conv2d(3, 8, 3, 2),
    torch.nn.ReLU(),
    torch.nn.AdaptiveAvgPool2d(1),
    torch.nn.Flatten(),
    torch.nn.Linear(8, 4),
)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

x, y = images()
x = kornia.filters.gaussian_blur2d(x, (3, 3), (1.0, 1.0))
x = kornia.geometry.rotate(x, torch.tensor([10.0, 20.0, 30.0, 40.0]))
x = kornia.color.rgb_to_hsv(x.sigmoid())
x = kornia.filters.sobel(x)


def loss():
    return torch.nn.functional.cross_entropy(model(x), y)


train(optimizer, loss)
