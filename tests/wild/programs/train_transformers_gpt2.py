"""GPT-2 of transformers."""

import transformers
from common import train_on_words

train_on_words(
    lambda: transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=100, n_embd=32, n_layer=2, n_head=4, n_positions=32
        )
    ),
)
