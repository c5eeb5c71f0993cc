"""Modules of tensordict."""

import torch
from common import train
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential

torch.manual_seed(0)
model = TensorDictSequential(
    TensorDictModule(torch.nn.Linear(8, 16), ["x"], ["h"]),
    TensorDictModule(torch.nn.Linear(16, 4), ["h"], ["out"]),
)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
torch.manual_seed(1)
d = TensorDict({"x": torch.randn(8, 8), "y": torch.arange(8) % 4}, batch_size=[8])


def loss():
    out = model(d.clone())
    return torch.nn.functional.cross_entropy(out["out"], out["y"])


train(optimizer, loss)
