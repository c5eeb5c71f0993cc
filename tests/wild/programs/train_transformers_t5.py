"""T5 of transformers."""

import torch
import transformers
from common import tokens, train

torch.manual_seed(0)
config = transformers.T5Config(
    vocab_size=100,
    d_model=32,
    d_kv=8,
    d_ff=64,
    num_layers=2,
    num_heads=4,
    decoder_start_token_id=0,
)
model = transformers.T5ForConditionalGeneration(config)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

x, mask = tokens()


def loss():
    return model(input_ids=x, attention_mask=mask, labels=x).loss


train(optimizer, loss)
