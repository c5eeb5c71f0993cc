"""DistilBERT of transformers."""

import torch
import transformers
from common import tokens, train

torch.manual_seed(0)
config = transformers.DistilBertConfig(
    vocab_size=100,
    dim=32,
    n_layers=2,
    n_heads=4,
    hidden_dim=64,
    max_position_embeddings=32,
)
model = transformers.DistilBertForMaskedLM(config)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

x, mask = tokens()


def loss():
    return model(input_ids=x, attention_mask=mask, labels=x).loss


train(optimizer, loss)
