"""Nodes of a graph labelled by graph convolutions and by graph attention."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.parameter import Parameter
from torch.optim import Adam

torch.manual_seed(42)


class GraphConv(nn.Module):
    def __init__(self, input_dim, output_dim, use_bias=False):
        super().__init__()
        self.kernel = Parameter(torch.Tensor(input_dim, output_dim))
        nn.init.xavier_normal_(self.kernel)
        self.bias = Parameter(torch.Tensor(output_dim)) if use_bias else None
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, input_tensor, adj_mat):
        output = torch.mm(adj_mat, torch.mm(input_tensor, self.kernel))
        return output if self.bias is None else output + self.bias


class GCN(nn.Module):
    def __init__(self, dims, hidden, classes):
        super().__init__()
        self.gc1 = GraphConv(dims, hidden, True)
        self.gc2 = GraphConv(hidden, classes, True)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x, adj):
        x = self.dropout(F.relu(self.gc1(x, adj)))
        return F.log_softmax(self.gc2(x, adj), dim=1)


class GraphAttentionLayer(nn.Module):
    def __init__(self, in_features, out_features, n_heads, concat=False):
        super().__init__()
        self.n_heads, self.concat = n_heads, concat
        self.n_hidden = out_features // n_heads if concat else out_features
        self.W = nn.Parameter(torch.empty(size=(in_features, self.n_hidden * n_heads)))
        self.a = nn.Parameter(torch.empty(size=(n_heads, 2 * self.n_hidden, 1)))
        self.leakyrelu = nn.LeakyReLU(0.2)
        self.softmax = nn.Softmax(dim=1)
        nn.init.xavier_normal_(self.W)
        nn.init.xavier_normal_(self.a)

    def forward(self, h, adj_mat):
        n_nodes = h.shape[0]
        h = torch.mm(h, self.W).view(n_nodes, self.n_heads, self.n_hidden)
        h = h.permute(1, 0, 2)
        source = torch.matmul(h, self.a[:, : self.n_hidden, :])
        target = torch.matmul(h, self.a[:, self.n_hidden :, :])
        e = self.leakyrelu(source + target.mT)
        e = torch.where(adj_mat > 0, e, -9e16 * torch.ones_like(e))
        attention = F.dropout(F.softmax(e, dim=-1), 0.2, training=self.training)
        h = torch.matmul(attention, h)
        if self.concat:
            return h.permute(1, 0, 2).contiguous().view(n_nodes, -1)
        return h.mean(dim=0)


class GAT(nn.Module):
    def __init__(self):
        super().__init__()
        self.gat1 = GraphAttentionLayer(10, 16, 4, concat=True)
        self.gat2 = GraphAttentionLayer(16, 4, 1)

    def forward(self, x, adj):
        return F.log_softmax(self.gat2(F.elu(self.gat1(x, adj)), adj), dim=1)


n = 24
edges = torch.randint(0, n, (2, 60))
dense = torch.eye(n)
dense[edges[0], edges[1]] = dense[edges[1], edges[0]] = 1
degree = dense.sum(1).pow(-0.5)
normed = torch.diag(degree) @ dense @ torch.diag(degree)
adj = normed.to_sparse().coalesce()
features, labels = torch.rand(n, 10), torch.randint(0, 4, (n,))
idx = torch.randperm(n)
idx_train, idx_val = idx[n // 3 :], idx[: n // 3]
for model, matrix in ((GCN(10, 16, 4), adj), (GAT(), dense)):
    optimizer = Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    criterion = nn.NLLLoss()
    for epoch in range(4):
        model.train()
        optimizer.zero_grad()
        output = model(features, matrix)
        loss = criterion(output[idx_train], labels[idx_train])
        loss.backward()
        optimizer.step()
        print(f"{type(model).__name__} {epoch}: {loss.item():.5f}")
    model.eval()
    with torch.no_grad():
        output = model(features, matrix)
        hit = (output[idx_val].argmax(dim=1) == labels[idx_val]).float().mean()
        print(f"{hit:.3f} {F.nll_loss(output[idx_val], labels[idx_val]):.5f}")
print(adj.is_sparse, adj._nnz() == int((normed != 0).sum()))
