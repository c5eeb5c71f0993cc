"""torchinfo's summary of a small network."""

import torch
import torchinfo
from common import images, train

torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.Conv2d(3, 8, 3),
    torch.nn.ReLU(),
    torch.nn.Flatten(),
    torch.nn.Linear(8 * 62 * 62, 4),
)
found = torchinfo.summary(model, (4, 3, 64, 64), verbose=0)
print(found.total_params)
print(found.total_mult_adds)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

x, y = images()


def loss():
    return torch.nn.functional.cross_entropy(model(x), y)


train(optimizer, loss)
