"""Qwen2 of transformers."""

import transformers
from common import GROUPED, train_on_words

train_on_words(
    lambda: transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**GROUPED)),
)
