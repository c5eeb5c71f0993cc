"""A Gaussian process of BoTorch."""

import gpytorch
import torch
from botorch.models import SingleTaskGP
from common import train

torch.manual_seed(0)
x = torch.rand(12, 2, dtype=torch.float64)
y = x.sin().sum(1, keepdim=True) - 1
model = SingleTaskGP(x, y)
mll = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
model.train()
# Larger steps leave the kernels.
optimizer = torch.optim.Adam(model.parameters(), lr=0.001)


def loss():
    return -mll(model(*model.train_inputs), model.train_targets).sum()


train(optimizer, loss)
