"""Convolutions over a graph, of PyG."""

import torch
import torch_geometric.nn as g
from common import train
from torch_geometric.data import Data

torch.manual_seed(0)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = (
            g.GCNConv(8, 16),
            g.GATConv(16, 8, heads=2),
            g.SAGEConv(16, 4),
        )

    def forward(self, d):
        return self.c(
            torch.relu(self.b(torch.relu(self.a(d.x, d.edge_index)), d.edge_index)),
            d.edge_index,
        )


model = Net()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
torch.manual_seed(1)
d = Data(
    x=torch.randn(20, 8),
    edge_index=torch.randint(0, 20, (2, 60)),
    y=torch.randint(0, 4, (20,)),
)


def loss():
    return torch.nn.functional.cross_entropy(model(d), d.y)


train(optimizer, loss)
