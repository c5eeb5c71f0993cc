"""AdamW without a schedule, of schedulefree, in its two modes."""

import schedulefree
import torch
from common import train

torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
x = torch.randn(16, 4)
y = x.sum(1, keepdim=True)
optimizer = schedulefree.AdamWScheduleFree(model.parameters(), lr=0.1, warmup_steps=2)
optimizer.train()

train(optimizer, lambda: (model(x) - y).pow(2).mean())
optimizer.eval()
print(model(x).sum().item())
