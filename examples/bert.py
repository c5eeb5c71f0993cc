"""BERT as its paper has it, with absolute or relative positions, part by part.

The parts are named as in the checkpoints that people share, so that those load.
"""

import json
import math
from dataclasses import dataclass, fields

from report import torch

nn = torch.nn


@dataclass
class BertConfig:
    """The sizes of a BERT."""

    vocab_size: int = 30522
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-12
    pad_token_id: int = 0
    position_embedding_type: str = "absolute"  # relative_key, relative_key_query

    @classmethod
    def read(cls, path):
        """The sizes in a ``config.json``; what else is in it is left aside."""
        facts = json.loads(path.read_text())
        known = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in facts.items() if name in known})


class BertEmbeddings(nn.Module):
    """Words, their sentence and, unless relative, their place, as vectors."""

    def __init__(self, config):
        super().__init__()
        size = config.hidden_size
        self.word_embeddings = nn.Embedding(
            config.vocab_size, size, padding_idx=config.pad_token_id
        )
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, size)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, size)
        self.LayerNorm = nn.LayerNorm(size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.absolute = config.position_embedding_type == "absolute"

    def forward(self, ids, types):
        found = self.word_embeddings(ids) + self.token_type_embeddings(types)
        if self.absolute:
            found = found + self.position_embeddings(torch.arange(ids.size(1)))
        return self.dropout(self.LayerNorm(found))


class BertSelfAttention(nn.Module):
    """Every word looks at every other one, through several heads."""

    def __init__(self, config):
        super().__init__()
        size = config.hidden_size
        self.heads = config.num_attention_heads
        self.width = size // self.heads
        self.query = nn.Linear(size, size)
        self.key = nn.Linear(size, size)
        self.value = nn.Linear(size, size)
        self.dropout = nn.Dropout(config.attention_probs_dropout_prob)
        self.kind = config.position_embedding_type
        if self.kind != "absolute":
            self.reach = config.max_position_embeddings
            self.distance_embedding = nn.Embedding(2 * self.reach - 1, self.width)

    def split(self, x):  # (batch, words, size) -> (batch, heads, words, width)
        return x.view(*x.shape[:2], self.heads, self.width).transpose(1, 2)

    def forward(self, hidden, bias):
        query, key = self.split(self.query(hidden)), self.split(self.key(hidden))
        scores = query @ key.transpose(-1, -2)
        if self.kind != "absolute":
            scores = scores + self.distances(query, key)
        weights = torch.softmax(scores / math.sqrt(self.width) + bias, dim=-1)
        found = self.dropout(weights) @ self.split(self.value(hidden))
        return found.transpose(1, 2).flatten(2)

    def distances(self, query, key):
        """How much words want to look as far as that."""
        places = torch.arange(query.size(2))
        steps = places[:, None] - places[None, :] + self.reach - 1
        vectors = self.distance_embedding(steps)  # (words, words, width)
        scores = torch.einsum("bhld,lrd->bhlr", query, vectors)
        if self.kind == "relative_key_query":
            scores = scores + torch.einsum("bhrd,lrd->bhlr", key, vectors)
        return scores


class BertSelfOutput(nn.Module):
    """What the heads found, added to what was there."""

    def __init__(self, config, size=None):
        super().__init__()
        self.dense = nn.Linear(size or config.hidden_size, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, found, before):
        return self.LayerNorm(self.dropout(self.dense(found)) + before)


class BertAttention(nn.Module):
    """The heads and their output."""

    def __init__(self, config):
        super().__init__()
        self.self = BertSelfAttention(config)
        self.output = BertSelfOutput(config)

    def forward(self, hidden, bias):
        return self.output(self.self(hidden, bias), hidden)


class BertIntermediate(nn.Module):
    """Each word by itself, in more dimensions."""

    def __init__(self, config):
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.intermediate_size)

    def forward(self, hidden):
        return nn.functional.gelu(self.dense(hidden))


class BertOutput(BertSelfOutput):
    """Back to the model's dimensions, added to what was there."""

    def __init__(self, config):
        super().__init__(config, config.intermediate_size)


class BertLayer(nn.Module):
    """Attention, and each word by itself."""

    def __init__(self, config):
        super().__init__()
        self.attention = BertAttention(config)
        self.intermediate = BertIntermediate(config)
        self.output = BertOutput(config)

    def forward(self, hidden, bias):
        hidden = self.attention(hidden, bias)
        return self.output(self.intermediate(hidden), hidden)


class BertEncoder(nn.Module):
    """The layers, one after another."""

    def __init__(self, config):
        super().__init__()
        self.layer = nn.ModuleList(
            BertLayer(config) for _ in range(config.num_hidden_layers)
        )

    def forward(self, hidden, bias):
        for layer in self.layer:
            hidden = layer(hidden, bias)
        return hidden


class BertPooler(nn.Module):
    """The first word's vector, which stands for the sentence."""

    def __init__(self, config):
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, hidden):
        return torch.tanh(self.dense(hidden[:, 0]))


class BertModel(nn.Module):
    """Words in, a vector for each word and one for the sentence out."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embeddings = BertEmbeddings(config)
        self.encoder = BertEncoder(config)
        self.pooler = BertPooler(config)
        self.apply(self.initialize)

    def initialize(self, module):
        """Small normal weights, no biases."""
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=self.config.initializer_range)
        if isinstance(module, nn.Linear):
            nn.init.zeros_(module.bias)
        if isinstance(module, nn.Embedding) and module.padding_idx is not None:
            with torch.no_grad():
                module.weight[module.padding_idx].zero_()

    def forward(self, ids, mask=None, types=None):
        types = torch.zeros_like(ids) if types is None else types
        mask = torch.ones_like(ids) if mask is None else mask
        hidden = self.embeddings(ids, types)
        least = torch.finfo(hidden.dtype).min
        bias = (1 - mask[:, None, None, :].to(hidden.dtype)) * least
        hidden = self.encoder(hidden, bias)
        return hidden, self.pooler(hidden)

    @classmethod
    def from_folder(cls, folder):
        """The model in a folder: ``config.json`` and ``model.safetensors``."""
        model = cls(BertConfig.read(folder / "config.json"))
        state = torch.load(str(folder / "model.safetensors"))
        state = {name.removeprefix("bert."): value for name, value in state.items()}
        state.pop("embeddings.position_ids", None)  # the numbers from 0 on
        model.load_state_dict(state)
        return model.eval()


def mean_of_words(hidden, mask):
    """The mean of the words' vectors, padding left out, of length 1."""
    weights = mask.unsqueeze(-1).to(hidden.dtype)
    mean = (hidden * weights).sum(1) / weights.sum(1).clamp(min=1e-9)
    return nn.functional.normalize(mean, dim=1)
