"""Mistral of transformers."""

import transformers
from common import GROUPED, train_on_words

train_on_words(
    lambda: transformers.MistralForCausalLM(transformers.MistralConfig(**GROUPED)),
)
