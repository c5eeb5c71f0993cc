"""A small diffusion model of denoising-diffusion-pytorch, trained and sampled from."""

import torch
from common import train
from denoising_diffusion_pytorch import GaussianDiffusion, Unet

torch.manual_seed(0)
model = GaussianDiffusion(
    Unet(dim=8, dim_mults=(1, 2), flash_attn=False), image_size=16, timesteps=20
)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
x = torch.rand(2, 3, 16, 16)

train(optimizer, lambda: model(x))
print(model.sample(batch_size=1).mean().item())
