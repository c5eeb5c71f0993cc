"""torchmetrics beside a linear layer."""

import torch
import torchmetrics
from common import train

torch.manual_seed(0)
model = torch.nn.Linear(8, 4)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
torch.manual_seed(1)
x, y = torch.randn(16, 8), torch.randint(0, 4, (16,))
metric = torchmetrics.MetricCollection(
    [
        torchmetrics.Accuracy(task="multiclass", num_classes=4),
        torchmetrics.F1Score(task="multiclass", num_classes=4, average="macro"),
        torchmetrics.AUROC(task="multiclass", num_classes=4),
        torchmetrics.ConfusionMatrix(task="multiclass", num_classes=4),
    ]
)


def loss():
    out = model(x)
    metric.update(out.softmax(-1).detach(), y)
    found = {
        k: v.sum().item() if v.ndim else v.item() for k, v in metric.compute().items()
    }
    return torch.nn.functional.cross_entropy(out, y) + sum(found.values())


train(optimizer, loss)
