"""torchao's export-based flow: static, dynamic and trained; weights of few bits."""

import copy

import torch
import torchao.quantization as ao
import torchao.quantization.pt2e.quantizer.x86_inductor_quantizer as x86
from common import images
from torch import nn
from torchao.optim import AdamW8bit
from torchao.quantization.pt2e import (
    move_exported_model_to_eval,
    move_exported_model_to_train,
)
from torchao.quantization.pt2e.quantize_pt2e import (
    convert_pt2e,
    prepare_pt2e,
    prepare_qat_pt2e,
)


class Block(nn.Module):
    """Two convolutions with norms, of which the second is added to the first."""

    def __init__(self):
        super().__init__()
        self.one, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.two, self.head = nn.Conv2d(8, 8, 3, padding=1), nn.Linear(8, 4)

    def forward(self, x):
        first = torch.relu(self.norm(self.one(x)))
        second = torch.relu(self.two(first) + first)
        return self.head(second.mean((2, 3)))


def quantized(model, x, prepare, steps=0, **how):
    """The model as the quantizer's graph of integers, after some steps of training."""
    config = x86.get_default_x86_inductor_quantization_config(**how)
    quantizer = x86.X86InductorQuantizer().set_global(config)
    seen = prepare(torch.export.export(model, (x,)).module(), quantizer)
    if steps:
        move_exported_model_to_train(seen)
        optimizer = torch.optim.SGD(seen.parameters(), lr=0.05)
    for step in range(steps or 2):
        value = (seen(x + step) ** 2).mean()
        if steps:
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
    if steps:
        move_exported_model_to_eval(seen)
    return convert_pt2e(seen)


x, _ = images()
torch.manual_seed(0)
model = Block().eval()
small = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 4)).eval()
rows = x[:, 0, 0, :]
with torch.no_grad():
    print(quantized(model, x, prepare_pt2e)(x).sum().item())
    print(quantized(small, rows, prepare_pt2e, is_dynamic=True)(rows).sum().item())
trained = quantized(copy.deepcopy(model).train(), x, prepare_qat_pt2e, 3, is_qat=True)
print(trained(x).sum().item())
for config in (
    ao.Int8WeightOnlyConfig(),
    ao.Int8DynamicActivationInt8WeightConfig(),
    ao.IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=ao.PerGroup(32)),
):
    fewer = copy.deepcopy(small)
    ao.quantize_(fewer, config)
    print(fewer(rows).sum().item())
optimizer = AdamW8bit(small.parameters(), lr=1e-2)
for _ in range(2):
    optimizer.zero_grad()
    loss = (small(rows) ** 2).mean()
    loss.backward()
    optimizer.step()
    print(loss.item())
