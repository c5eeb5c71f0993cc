"""Eight families of transformers that no other program here has: one loss of each."""

import torch
import transformers as t
from common import GROUPED, SIZES, tokens

RELATIVE = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]}
EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2}
words, mask = tokens()
classes = torch.tensor([0, 1, 0, 1])
for kind, config, labels in (
    (
        t.DebertaV2ForSequenceClassification,
        t.DebertaV2Config(**SIZES, **RELATIVE, position_buckets=8),
        classes,
    ),
    (
        t.LongformerForSequenceClassification,
        t.LongformerConfig(**SIZES, attention_window=4),
        classes,
    ),
    (t.AlbertForSequenceClassification, t.AlbertConfig(**SIZES), classes),
    (
        t.BloomForCausalLM,
        t.BloomConfig(vocab_size=100, hidden_size=32, n_layer=2, n_head=4),
        words,
    ),
    (
        t.Gemma2ForCausalLM,
        t.Gemma2Config(**GROUPED, head_dim=8, sliding_window=4),
        words,
    ),
    (t.MixtralForCausalLM, t.MixtralConfig(**GROUPED, **EXPERTS), words),
    (t.PhiForCausalLM, t.PhiConfig(**SIZES), words),
    (
        t.Mamba2ForCausalLM,
        t.Mamba2Config(
            num_heads=8,
            head_dim=8,
            vocab_size=100,
            hidden_size=32,
            num_hidden_layers=2,
            state_size=8,
            n_groups=2,
            chunk_size=4,
        ),
        words,
    ),
):
    torch.manual_seed(0)
    model = kind(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(2):
        optimizer.zero_grad()
        loss = model(input_ids=words, attention_mask=mask, labels=labels).loss
        loss.backward()
        optimizer.step()
    print(loss.item())
