"""A tensor product of e3nn, which is a program that fx made."""

import torch
from common import train
from e3nn import o3

torch.manual_seed(0)
product = o3.FullyConnectedTensorProduct("4x0e + 2x1o", "1x0e + 1x1o", "4x0e + 2x1o")
optimizer = torch.optim.Adam(product.parameters(), lr=1e-2)
x = torch.randn(8, 10)
along = o3.spherical_harmonics("0e + 1o", torch.randn(8, 3), True)

train(optimizer, lambda: (product(x, along) - x).pow(2).mean())
print(o3.Irreps("4x0e + 2x1o").D_from_matrix(o3.rand_matrix()).sum().item())
