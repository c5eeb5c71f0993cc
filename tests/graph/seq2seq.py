"""Translation by an attention decoder with GRUs, teacher forcing, and greedy search."""

import random
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import optim
from torch.utils.data import DataLoader, RandomSampler, TensorDataset

random.seed(0)
torch.manual_seed(0)
SOS_token, EOS_token, MAX_LENGTH = 0, 1, 6
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class EncoderRNN(nn.Module):
    def __init__(self, input_size, hidden_size, dropout_p=0.1):
        super().__init__()
        self.embedding = nn.Embedding(input_size, hidden_size)
        self.gru = nn.GRU(hidden_size, hidden_size, batch_first=True)
        self.dropout = nn.Dropout(dropout_p)

    def forward(self, input):
        return self.gru(self.dropout(self.embedding(input)))


class BahdanauAttention(nn.Module):
    def __init__(self, hidden_size):
        super().__init__()
        self.Wa = nn.Linear(hidden_size, hidden_size)
        self.Ua = nn.Linear(hidden_size, hidden_size)
        self.Va = nn.Linear(hidden_size, 1)

    def forward(self, query, keys):
        scores = self.Va(torch.tanh(self.Wa(query) + self.Ua(keys)))
        weights = F.softmax(scores.squeeze(2).unsqueeze(1), dim=-1)
        return torch.bmm(weights, keys), weights


class AttnDecoderRNN(nn.Module):
    def __init__(self, hidden_size, output_size, dropout_p=0.1):
        super().__init__()
        self.embedding = nn.Embedding(output_size, hidden_size)
        self.attention = BahdanauAttention(hidden_size)
        self.gru = nn.GRU(2 * hidden_size, hidden_size, batch_first=True)
        self.out = nn.Linear(hidden_size, output_size)
        self.dropout = nn.Dropout(dropout_p)

    def forward(self, encoder_outputs, encoder_hidden, target_tensor=None):
        batch_size = encoder_outputs.size(0)
        decoder_input = torch.empty(batch_size, 1, dtype=torch.long, device=device)
        decoder_input = decoder_input.fill_(SOS_token)
        decoder_hidden, decoder_outputs, attentions = encoder_hidden, [], []
        for i in range(MAX_LENGTH):
            embedded = self.dropout(self.embedding(decoder_input))
            query = decoder_hidden.permute(1, 0, 2)
            context, weights = self.attention(query, encoder_outputs)
            output, decoder_hidden = self.gru(
                torch.cat((embedded, context), dim=2), decoder_hidden
            )
            output = self.out(output)
            decoder_outputs.append(output)
            attentions.append(weights)
            if target_tensor is not None:
                decoder_input = target_tensor[:, i].unsqueeze(1)
            else:
                _, topi = output.topk(1)
                decoder_input = topi.squeeze(-1).detach()
        decoder_outputs = F.log_softmax(torch.cat(decoder_outputs, dim=1), dim=-1)
        return decoder_outputs, decoder_hidden, torch.cat(attentions, dim=1)


source = torch.randint(2, 15, (20, MAX_LENGTH))
target = (source + 1) % 15
data = TensorDataset(source.to(device), target.to(device))
loader = DataLoader(data, sampler=RandomSampler(data), batch_size=5)
encoder, decoder = EncoderRNN(15, 16).to(device), AttnDecoderRNN(16, 15).to(device)
optimizers = [optim.Adam(m.parameters(), lr=0.01) for m in (encoder, decoder)]
criterion = nn.NLLLoss()
start = time.time()
for epoch in range(3):
    total_loss = 0
    for input_tensor, target_tensor in loader:
        for optimizer in optimizers:
            optimizer.zero_grad()
        outputs, hidden = encoder(input_tensor)
        forced = target_tensor if random.random() < 0.7 else None
        decoded, _, _ = decoder(outputs, hidden, forced)
        loss = criterion(decoded.view(-1, decoded.size(-1)), target_tensor.view(-1))
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        total_loss += loss.item()
    print(f"{epoch}: {total_loss / len(loader):.5f}")
encoder.eval()
decoder.eval()
with torch.no_grad():
    outputs, hidden = encoder(source[:1])
    decoded, _, attentions = decoder(outputs, hidden)
    _, topi = decoded.topk(1)
print(topi.squeeze().tolist(), f"{attentions.sum().item():.4f}")
