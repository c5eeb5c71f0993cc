"""Whisper of transformers."""

import torch
import transformers
from common import train

torch.manual_seed(0)
config = transformers.WhisperConfig(
    vocab_size=100,
    d_model=32,
    encoder_layers=2,
    decoder_layers=2,
    encoder_attention_heads=4,
    decoder_attention_heads=4,
    encoder_ffn_dim=64,
    decoder_ffn_dim=64,
    num_mel_bins=16,
    max_source_positions=16,
    max_target_positions=32,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
    decoder_start_token_id=1,
)
model = transformers.WhisperForConditionalGeneration(config)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
torch.manual_seed(1)
x, y = torch.randn(2, 16, 32), torch.randint(3, 100, (2, 6))


def loss():
    return model(input_features=x, labels=y).loss


train(optimizer, loss)
