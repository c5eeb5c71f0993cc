"""RoBERTa of transformers."""

import torch
import transformers
from common import tokens, train

torch.manual_seed(0)
config = transformers.RobertaConfig(
    vocab_size=100,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=64,
    max_position_embeddings=64,
    num_labels=2,
)
model = transformers.RobertaForSequenceClassification(config)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

x, mask = tokens()

y = torch.tensor([0, 1, 0, 1])


def loss():
    return model(input_ids=x, attention_mask=mask, labels=y).loss


train(optimizer, loss)
