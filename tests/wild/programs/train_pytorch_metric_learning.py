"""Losses of pytorch-metric-learning."""

import torch
from common import train
from pytorch_metric_learning import losses, miners

torch.manual_seed(0)
model = torch.nn.Linear(8, 4)
criterion, miner = losses.TripletMarginLoss(), miners.MultiSimilarityMiner()
other = losses.ArcFaceLoss(4, 4)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
torch.manual_seed(1)
x, y = torch.randn(16, 8), torch.arange(16) % 4


def loss():
    out = model(x)
    return criterion(out, y, miner(out, y)) + other(out, y)


train(optimizer, loss)
