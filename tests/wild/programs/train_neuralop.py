"""A Fourier neural operator of neuraloperator."""

import torch
from common import train
from neuralop.models import FNO

torch.manual_seed(0)
model = FNO(
    n_modes=(4, 4), in_channels=1, out_channels=1, hidden_channels=8, n_layers=2
)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
x = torch.randn(2, 1, 16, 16)

train(optimizer, lambda: (model(x) - x).pow(2).mean())
