"""A differential equation of torchdiffeq."""

import torch
from common import train
from torchdiffeq import odeint

torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2)
)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
t = torch.linspace(0, 1, 5)
y0 = torch.randn(4, 2)


def loss():
    return odeint(lambda s, y: model(y), y0, t).square().mean()


train(optimizer, loss)
