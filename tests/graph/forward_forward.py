"""Layers that learn by themselves, without a backward pass through the others."""

import torch
import torch.nn as nn
from torch.optim import Adam

torch.manual_seed(1234)


def overlay(x, y, classes=10):
    x_ = x.clone()
    x_[:, :classes] *= 0.0
    x_[range(x.shape[0]), y] = x.max()
    return x_


def get_y_neg(y):
    y_neg = y.clone()
    for idx, y_samp in enumerate(y):
        allowed = list(range(10))
        allowed.remove(y_samp.item())
        y_neg[idx] = torch.tensor(allowed)[
            torch.randint(len(allowed), size=(1,))
        ].item()
    return y_neg


class Layer(nn.Linear):
    def __init__(self, in_features, out_features, device=None, dtype=None):
        super().__init__(in_features, out_features, True, device, dtype)
        self.relu = torch.nn.ReLU()
        self.opt = Adam(self.parameters(), lr=0.03)
        self.threshold = 2.0

    def forward(self, x):
        x_direction = x / (x.norm(2, 1, keepdim=True) + 1e-4)
        return self.relu(torch.mm(x_direction, self.weight.T) + self.bias.unsqueeze(0))

    def train(self, x_pos, x_neg=None):
        if x_neg is None:
            return super().train(x_pos)
        for _ in range(3):
            g_pos = self.forward(x_pos).pow(2).mean(1)
            g_neg = self.forward(x_neg).pow(2).mean(1)
            margins = torch.cat([-g_pos + self.threshold, g_neg - self.threshold])
            loss = torch.log(1 + torch.exp(margins)).mean()
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
        print(f"{loss.item():.5f}")
        return self.forward(x_pos).detach(), self.forward(x_neg).detach()


layers = [Layer(30, 20), Layer(20, 20)]
x, y = torch.rand(32, 30), torch.randint(0, 10, (32,))
x_pos, x_neg = overlay(x, y), overlay(x, get_y_neg(y))
for layer in layers:
    x_pos, x_neg = layer.train(x_pos, x_neg)
goodness_per_label = []
for label in range(10):
    h = overlay(x, label)
    goodness = []
    for layer in layers:
        h = layer(h)
        goodness = goodness + [h.pow(2).mean(1)]
    goodness_per_label += [sum(goodness).unsqueeze(1)]
goodness_per_label = torch.cat(goodness_per_label, 1)
print(goodness_per_label.argmax(1).eq(y).float().mean().item())
