"""Qwen2 of transformers."""

import torch
import transformers
from common import tokens, train

torch.manual_seed(0)
config = transformers.Qwen2Config(
    vocab_size=100,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=64,
    max_position_embeddings=64,
    num_key_value_heads=2,
)
model = transformers.Qwen2ForCausalLM(config)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

x, mask = tokens()


def loss():
    return model(input_ids=x, attention_mask=mask, labels=x).loss


train(optimizer, loss)
