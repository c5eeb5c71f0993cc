"""A small CLIP of open_clip with its contrastive loss."""

import torch
from common import train
from open_clip import ClipLoss
from open_clip.model import CLIP, CLIPTextCfg, CLIPVisionCfg

torch.manual_seed(0)
model = CLIP(
    embed_dim=16,
    vision_cfg=CLIPVisionCfg(
        layers=2, width=32, head_width=8, patch_size=8, image_size=32
    ),
    text_cfg=CLIPTextCfg(
        context_length=12, vocab_size=100, width=32, heads=4, layers=2
    ),
)
contrast = ClipLoss()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
pictures, words = torch.randn(4, 3, 32, 32), torch.randint(0, 100, (4, 12))

train(optimizer, lambda: contrast(*model(pictures, words)))
