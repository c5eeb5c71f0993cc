"""x-transformers' decoder."""

import torch
from common import tokens, train
from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper

torch.manual_seed(0)
model = AutoregressiveWrapper(
    TransformerWrapper(
        num_tokens=100,
        max_seq_len=32,
        attn_layers=Decoder(dim=32, depth=2, heads=4, rotary_pos_emb=True),
    )
)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

x, mask = tokens()


def loss():
    return model(x)


train(optimizer, loss)
