"""DistilBERT of transformers."""

import transformers
from common import train_on_words

train_on_words(
    lambda: transformers.DistilBertForMaskedLM(
        transformers.DistilBertConfig(
            vocab_size=100,
            dim=32,
            n_layers=2,
            n_heads=4,
            hidden_dim=64,
            max_position_embeddings=32,
        )
    ),
)
