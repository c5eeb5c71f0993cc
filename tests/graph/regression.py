"""A polynomial fitted: NumPy's way, by gradients, by a Function, by modules of control flow."""

import math
import random
from itertools import count

import torch
import torch.nn.functional as F

torch.manual_seed(7)
random.seed(7)
DEGREE = 4
W_target = torch.randn(DEGREE, 1) * 5
b_target = torch.randn(1) * 5


def make_features(x):
    x = x.unsqueeze(1)
    return torch.cat([x**i for i in range(1, DEGREE + 1)], 1)


def poly_desc(W, b):
    terms = [f"{w:+.2f} x^{i + 1} " for i, w in enumerate(W)]
    return "y = " + "".join(terms) + f"{b[0]:+.2f}"


fc = torch.nn.Linear(W_target.size(0), 1)
for batch in count(1):
    x = make_features(torch.randn(32))
    y = x.mm(W_target) + b_target.item()
    fc.zero_grad()
    output = F.smooth_l1_loss(fc(x), y)
    output.backward()
    for param in fc.parameters():
        param.data.add_(-0.1 * param.grad)
    if batch == 40:
        break
print(f"loss {output.item():.5f} after {batch}")
print(poly_desc(fc.weight.view(-1), fc.bias))
print(poly_desc(W_target.view(-1), b_target))


class LegendrePolynomial3(torch.autograd.Function):
    @staticmethod
    def forward(ctx, input):
        ctx.save_for_backward(input)
        return 0.5 * (5 * input**3 - 3 * input)

    @staticmethod
    def backward(ctx, grad_output):
        (input,) = ctx.saved_tensors
        return grad_output * 1.5 * (5 * input**2 - 1)


x = torch.linspace(-math.pi, math.pi, 200)
y = torch.sin(x)
a, b, c, d = (torch.full((), v, requires_grad=True) for v in (0.0, -1.0, 0.0, 0.3))
P3 = LegendrePolynomial3.apply
for _ in range(100):
    y_pred = a + b * P3(c + d * x)
    loss = (y_pred - y).pow(2).sum()
    loss.backward()
    with torch.no_grad():
        for p in (a, b, c, d):
            p -= 5e-6 * p.grad
            p.grad = None
print(
    f"{loss.item():.4f}: {a.item():.5f} + {b.item():.5f} P3({c.item():.5f} + {d.item():.5f} x)"
)


class DynamicNet(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c, self.d, self.e = (
            torch.nn.Parameter(torch.randn(())) for _ in range(5)
        )

    def forward(self, x):
        y = self.a + self.b * x + self.c * x**2 + self.d * x**3
        for exp in range(4, random.randint(4, 6)):
            y = y + self.e * x**exp
        return y

    def string(self):
        return f"y = {self.a.item():.5f} + {self.b.item():.5f} x ..."


model = DynamicNet()
criterion = torch.nn.MSELoss(reduction="sum")
optimizer = torch.optim.SGD(model.parameters(), lr=1e-8, momentum=0.9)
for _ in range(60):
    loss = criterion(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"{loss.item():.4f} {model.string()}")
xx = torch.tensor([1, 2, 3]).unsqueeze(-1).pow(torch.tensor([1, 2, 3]))
model = torch.nn.Sequential(torch.nn.Linear(3, 1), torch.nn.Flatten(0, 1))
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
xx = x.unsqueeze(-1).pow(torch.tensor([1, 2, 3]))
for _ in range(50):
    loss = criterion(model(xx), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(
    f"{loss.item():.4f} {model[0].bias.item():.5f} {model[0].weight[:, 0].item():.5f}"
)
