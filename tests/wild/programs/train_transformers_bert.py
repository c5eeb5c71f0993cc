"""BERT of transformers."""

import transformers
from common import SIZES, train_on_words

train_on_words(
    lambda: transformers.BertForSequenceClassification(
        transformers.BertConfig(**SIZES, num_labels=2)
    ),
    classes=True,
)
