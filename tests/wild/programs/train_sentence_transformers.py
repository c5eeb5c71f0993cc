"""sentence-transformers' loss over pooled words."""

import torch
import transformers
from common import tokens, train
from sentence_transformers import losses
from sentence_transformers.models import Pooling

torch.manual_seed(0)
config = transformers.BertConfig(
    vocab_size=100,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=64,
    max_position_embeddings=64,
)
bert = transformers.BertModel(config)
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
