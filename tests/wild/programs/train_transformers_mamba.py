"""Mamba of transformers."""

import torch
import transformers
from common import tokens, train

torch.manual_seed(0)
config = transformers.MambaConfig(
    vocab_size=100, hidden_size=32, num_hidden_layers=2, state_size=8
)
model = transformers.MambaForCausalLM(config)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

x, mask = tokens()


def loss():
    return model(input_ids=x, labels=x).loss


train(optimizer, loss)
