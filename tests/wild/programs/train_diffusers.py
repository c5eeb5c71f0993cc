"""A denoising network of diffusers."""

import diffusers
import torch
from common import train

torch.manual_seed(0)
model = diffusers.UNet2DModel(
    sample_size=16,
    in_channels=3,
    out_channels=3,
    layers_per_block=1,
    block_out_channels=(32, 64),
    down_block_types=("DownBlock2D", "AttnDownBlock2D"),
    up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    norm_num_groups=8,
)
scheduler = diffusers.DDPMScheduler(num_train_timesteps=100)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
torch.manual_seed(1)
x, noise, t = (
    torch.randn(2, 3, 16, 16),
    torch.randn(2, 3, 16, 16),
    torch.tensor([10, 60]),
)


def loss():
    return torch.nn.functional.mse_loss(
        model(scheduler.add_noise(x, noise, t), t).sample, noise
    )


train(optimizer, loss)
