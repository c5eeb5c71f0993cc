"""Two sentences compared: packed sequences, projections, bidirectional states, dropout."""

import torch
import torch.nn as nn
from torch.nn.utils.rnn import (
    pack_padded_sequence,
    pack_sequence,
    pad_packed_sequence,
    pad_sequence,
)

torch.manual_seed(3)


class Bottle(nn.Module):
    def forward(self, input):
        if len(input.size()) <= 2:
            return super().forward(input)
        size = input.size()[:2]
        out = super().forward(input.view(size[0] * size[1], -1))
        return out.view(size[0], size[1], -1)


class Linear(Bottle, nn.Linear):
    pass


class Encoder(nn.Module):
    def __init__(self, d_proj, d_hidden, n_layers):
        super().__init__()
        self.rnn = nn.LSTM(
            input_size=d_proj,
            hidden_size=d_hidden,
            num_layers=n_layers,
            dropout=0.2,
            bidirectional=True,
        )
        self.n_layers, self.d_hidden = n_layers, d_hidden

    def forward(self, inputs, lengths):
        batch_size = inputs.size()[1]
        state_shape = self.n_layers * 2, batch_size, self.d_hidden
        h0 = c0 = inputs.new_zeros(state_shape)
        packed = pack_padded_sequence(inputs, lengths, enforce_sorted=False)
        outputs, (ht, ct) = self.rnn(packed, (h0, c0))
        outputs, _ = pad_packed_sequence(outputs)
        return ht[-2:].transpose(0, 1).contiguous().view(batch_size, -1)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(40, 12, padding_idx=0)
        self.projection = Linear(12, 10)
        self.encoder = Encoder(10, 8, 2)
        self.dropout = nn.Dropout(p=0.2)
        self.relu = nn.ReLU()
        seq_in_size = 2 * 16
        lin = [seq_in_size] * 2
        self.out = nn.Sequential(
            Linear(*lin),
            self.relu,
            self.dropout,
            Linear(*lin),
            self.relu,
            self.dropout,
            Linear(seq_in_size, 3),
        )

    def forward(self, batch):
        (premise, n1), (hypothesis, n2) = batch
        sides = []
        for text, lengths in ((premise, n1), (hypothesis, n2)):
            embedded = self.embed(text).detach()
            sides.append(self.encoder(self.relu(self.projection(embedded)), lengths))
        return self.out(torch.cat(sides, 1))


def sentences(n):
    lengths = torch.randint(2, 9, (n,))
    rows = [torch.randint(1, 40, (int(k),)) for k in lengths]
    return pad_sequence(rows), lengths


model = Classifier()
criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
opt = torch.optim.Adam(model.parameters(), lr=1e-3, amsgrad=True)
labels = torch.randint(0, 3, (16,))
batch = sentences(16), sentences(16)
for step in range(5):
    model.train()
    opt.zero_grad()
    answer = model(batch)
    loss = criterion(answer, labels)
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 5.0, error_if_nonfinite=True)
    opt.step()
    print(f"{step}: {loss.item():.5f} {norm:.5f}")
model.eval()
with torch.no_grad():
    answer = model(batch)
    print((torch.max(answer, 1)[1].view(labels.size()) == labels).sum().item())
packed = pack_sequence([torch.arange(3.0), torch.arange(2.0)])
print(packed.data.tolist(), packed.batch_sizes.tolist())
