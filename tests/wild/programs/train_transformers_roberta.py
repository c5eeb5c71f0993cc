"""RoBERTa of transformers."""

import transformers
from common import SIZES, train_on_words

train_on_words(
    lambda: transformers.RobertaForSequenceClassification(
        transformers.RobertaConfig(**SIZES, num_labels=2)
    ),
    classes=True,
)
