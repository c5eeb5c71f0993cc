"""Variational inference by Pyro."""

import pyro
import pyro.distributions as dist
import torch
from pyro.infer import SVI, Trace_ELBO

torch.manual_seed(0)
pyro.set_rng_seed(0)
x = torch.randn(50, 3)
y = x @ torch.tensor([1.0, -2.0, 0.5]) + 0.1 * torch.randn(50)


def m(x, y=None):
    w = pyro.sample("w", dist.Normal(torch.zeros(3), 1.0).to_event(1))
    s = pyro.sample("s", dist.HalfNormal(1.0))
    with pyro.plate("d", len(x)):
        return pyro.sample("o", dist.Normal(x @ w, s + 0.01), obs=y)


guide = pyro.infer.autoguide.AutoNormal(m)
svi = SVI(m, guide, pyro.optim.Adam({"lr": 0.05}), Trace_ELBO())
for _ in range(4):
    print(svi.step(x, y))
