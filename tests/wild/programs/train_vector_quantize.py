"""Quantizers of vector-quantize-pytorch: by a code book, by residuals, by levels."""

import torch
from common import train
from vector_quantize_pytorch import FSQ, ResidualVQ, VectorQuantize

torch.manual_seed(0)
quantize = VectorQuantize(dim=8, codebook_size=16)
encode = torch.nn.Linear(8, 8)
optimizer = torch.optim.Adam(encode.parameters(), lr=1e-2)
x = torch.randn(2, 20, 8)


def loss():
    quantized, _, commitment = quantize(encode(x))
    return commitment.sum() + (quantized - x).pow(2).mean()


train(optimizer, loss)
print(ResidualVQ(dim=8, num_quantizers=2, codebook_size=8).eval()(x)[0].mean().item())
print(FSQ([5, 5])(torch.randn(2, 6, 2))[0].sum().item())
