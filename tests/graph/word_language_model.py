"""Words after words by LSTM, GRU, RNN and a transformer: tied weights, clipped gradients."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(1111)
NTOKEN, BPTT = 20, 7


class RNNModel(nn.Module):
    def __init__(self, rnn_type, ntoken, ninp, nhid, nlayers, dropout=0.5, tie=False):
        super().__init__()
        self.drop = nn.Dropout(dropout)
        self.encoder = nn.Embedding(ntoken, ninp)
        if rnn_type in ["LSTM", "GRU"]:
            self.rnn = getattr(nn, rnn_type)(ninp, nhid, nlayers, dropout=dropout)
        else:
            nonlinearity = {"RNN_TANH": "tanh", "RNN_RELU": "relu"}[rnn_type]
            self.rnn = nn.RNN(
                ninp, nhid, nlayers, nonlinearity=nonlinearity, dropout=dropout
            )
        self.decoder = nn.Linear(nhid, ntoken)
        if tie:
            self.decoder.weight = self.encoder.weight
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)
        self.rnn_type, self.nhid, self.nlayers, self.ntoken = (
            rnn_type,
            nhid,
            nlayers,
            ntoken,
        )

    def forward(self, input, hidden):
        emb = self.drop(self.encoder(input))
        output, hidden = self.rnn(emb, hidden)
        decoded = self.decoder(self.drop(output)).view(-1, self.ntoken)
        return F.log_softmax(decoded, dim=1), hidden

    def init_hidden(self, bsz):
        weight = next(self.parameters())
        zero = weight.new_zeros(self.nlayers, bsz, self.nhid)
        return (zero, zero.clone()) if self.rnn_type == "LSTM" else zero


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, dropout=0.1, max_len=50):
        super().__init__()
        self.dropout = nn.Dropout(p=dropout)
        pe = torch.zeros(max_len, d_model)
        position = torch.arange(0, max_len, dtype=torch.float).unsqueeze(1)
        div_term = torch.exp(
            torch.arange(0, d_model, 2).float() * (-math.log(10000.0) / d_model)
        )
        pe[:, 0::2] = torch.sin(position * div_term)
        pe[:, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe.unsqueeze(0).transpose(0, 1))

    def forward(self, x):
        return self.dropout(x + self.pe[: x.size(0), :])


class TransformerModel(nn.Transformer):
    def __init__(self, ntoken, ninp, nhead, nhid, nlayers, dropout=0.5):
        super().__init__(
            d_model=ninp, nhead=nhead, dim_feedforward=nhid, num_encoder_layers=nlayers
        )
        self.src_mask = None
        self.pos_encoder = PositionalEncoding(ninp, dropout)
        self.input_emb = nn.Embedding(ntoken, ninp)
        self.ninp = ninp
        self.decoder = nn.Linear(ninp, ntoken)
        nn.init.uniform_(self.input_emb.weight, -0.1, 0.1)

    def forward(self, src):
        if self.src_mask is None or self.src_mask.size(0) != len(src):
            self.src_mask = torch.log(torch.tril(torch.ones(len(src), len(src))))
        src = self.pos_encoder(self.input_emb(src) * math.sqrt(self.ninp))
        return F.log_softmax(
            self.decoder(self.encoder(src, mask=self.src_mask)), dim=-1
        )


def batchify(data, bsz):
    nbatch = data.size(0) // bsz
    data = data.narrow(0, 0, nbatch * bsz)
    return data.view(bsz, -1).t().contiguous()


def repackage_hidden(h):
    if isinstance(h, torch.Tensor):
        return h.detach()
    return tuple(repackage_hidden(v) for v in h)


def get_batch(source, i):
    seq_len = min(BPTT, len(source) - 1 - i)
    return source[i : i + seq_len], source[i + 1 : i + 1 + seq_len].view(-1)


corpus = batchify(torch.randint(0, NTOKEN, (130,)), 4)
criterion = nn.NLLLoss()
for kind in ("LSTM", "GRU", "RNN_TANH", "RNN_RELU", "Transformer"):
    if kind == "Transformer":
        model = TransformerModel(NTOKEN, 16, 2, 24, 2)
        hidden = None
    else:
        model = RNNModel(kind, NTOKEN, 12, 12, 2, 0.2, tie=True)
        hidden = model.init_hidden(4)
        if kind == "LSTM":
            model.rnn.flatten_parameters()
    model.train()
    lr, total = 2.0, 0.0
    for i in range(0, corpus.size(0) - 1, BPTT):
        data, targets = get_batch(corpus, i)
        model.zero_grad()
        if hidden is None:
            output = model(data).view(-1, NTOKEN)
        else:
            hidden = repackage_hidden(hidden)
            output, hidden = model(data, hidden)
        loss = criterion(output, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        for p in model.parameters():
            if p.grad is not None:
                p.data.add_(p.grad, alpha=-lr)
        total += loss.item()
    print(f"{kind}: {total:.4f} ppl {math.exp(loss.item()):.3f}")
model.eval()
with torch.no_grad():
    word = torch.randint(NTOKEN, (1, 1), dtype=torch.long)
    words = []
    for _ in range(5):
        weights = model(word)[-1].squeeze().div(1.0).exp().cpu()
        index = torch.multinomial(weights, 1)[0]
        word = torch.cat([word, torch.Tensor([[index]]).long()], 0)
        words.append(index.item())
print(words)
