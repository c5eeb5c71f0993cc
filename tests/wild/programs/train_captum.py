"""captum's attributions and a small network."""

import torch
from captum.attr import DeepLift, IntegratedGradients, Saliency
from common import train

torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)
)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
torch.manual_seed(1)
x, y = torch.randn(8, 8), torch.arange(8) % 4
for kind in IntegratedGradients, Saliency, DeepLift:
    print(
        kind(model).attribute(x.clone().requires_grad_(), target=1).abs().sum().item()
    )


def loss():
    return torch.nn.functional.cross_entropy(model(x), y)


train(optimizer, loss)
