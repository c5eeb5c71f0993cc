"""Flows of zuko: splines, autoregressive maps, a mixture; and samples of one."""

import torch
import zuko
from common import train

torch.manual_seed(0)
x, context = torch.randn(32, 2) * 0.5, torch.randn(32, 1)
for flow in (
    zuko.flows.NSF(2, 1, transforms=2, hidden_features=(16, 16)),
    zuko.flows.MAF(2, 1, transforms=2, hidden_features=(16,)),
    zuko.flows.CNF(2, 1, hidden_features=(8,)),
    zuko.flows.GMM(2, 1, components=3),
):
    optimizer = torch.optim.Adam(flow.parameters(), lr=1e-2)
    train(optimizer, lambda: -flow(context).log_prob(x).mean(), steps=2)  # noqa: B023
