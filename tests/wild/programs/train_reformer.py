"""A language model of reformer-pytorch: reversible layers, attention by hashes."""

import torch
from common import train
from reformer_pytorch import ReformerLM

torch.manual_seed(0)
model = ReformerLM(
    num_tokens=50,
    dim=16,
    depth=2,
    max_seq_len=32,
    heads=2,
    bucket_size=8,
    n_hashes=2,
    causal=True,
)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
x = torch.randint(0, 50, (2, 32))

train(
    optimizer,
    lambda: torch.nn.functional.cross_entropy(model(x).transpose(1, 2), x),
)
