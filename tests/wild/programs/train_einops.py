"""A network of einops' layers."""

import torch
from common import images, train
from einops import rearrange, repeat
from einops.layers.torch import Rearrange, Reduce

torch.manual_seed(0)
model = torch.nn.Sequential(
    Rearrange("b c (h p) (w q) -> b (h w) (p q c)", p=16, q=16),
    torch.nn.Linear(768, 32),
    torch.nn.GELU(),
    Reduce("b n d -> b d", "mean"),
    torch.nn.Linear(32, 4),
)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

x, y = images()


def loss():
    return torch.nn.functional.cross_entropy(model(x), y)


y = repeat(rearrange(y, "(a b) -> a b", a=2), "a b -> (a b)")

train(optimizer, loss)
