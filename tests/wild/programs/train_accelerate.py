"""Accelerate around a small network."""

import accelerate
import torch

torch.manual_seed(0)
accelerator = accelerate.Accelerator(cpu=True)
model = torch.nn.Sequential(
    torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4)
)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
data = torch.utils.data.TensorDataset(torch.randn(32, 8), torch.randint(0, 4, (32,)))
model, optimizer, loader = accelerator.prepare(
    model, optimizer, torch.utils.data.DataLoader(data, 8, shuffle=True)
)
for x, y in loader:
    optimizer.zero_grad()
    value = torch.nn.functional.cross_entropy(model(x), y)
    accelerator.backward(value)
    accelerator.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    print(value.item())
