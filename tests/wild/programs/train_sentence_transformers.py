"""sentence-transformers' loss over pooled words."""

import torch
import transformers
from common import SIZES, tokens, train
from sentence_transformers import losses
from sentence_transformers.models import Pooling

torch.manual_seed(0)
bert = transformers.BertModel(transformers.BertConfig(**SIZES))
pool = Pooling(32)


class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.bert, self.pool = bert, pool

    def forward(self, features):
        features["token_embeddings"] = self.bert(
            input_ids=features["input_ids"], attention_mask=features["attention_mask"]
        ).last_hidden_state
        return self.pool(features)


model = Encoder()
criterion = losses.MultipleNegativesRankingLoss(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

x, mask = tokens()
y = torch.randint(0, 100, (4, 12))


def loss():
    return criterion(
        [
            {"input_ids": x, "attention_mask": mask},
            {"input_ids": y, "attention_mask": mask},
        ],
        None,
    )


train(optimizer, loss)
