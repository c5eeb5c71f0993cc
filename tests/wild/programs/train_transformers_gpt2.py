"""GPT-2 of transformers."""

import torch
import transformers
from common import tokens, train

torch.manual_seed(0)
config = transformers.GPT2Config(
    vocab_size=100, n_embd=32, n_layer=2, n_head=4, n_positions=32
)
model = transformers.GPT2LMHeadModel(config)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

x, mask = tokens()


def loss():
    return model(input_ids=x, attention_mask=mask, labels=x).loss


train(optimizer, loss)
