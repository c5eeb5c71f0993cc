"""Sharper pictures by shuffled pixels; orthogonal weights; the whole model in a file."""

import os
import tempfile
from math import log10

import torch
import torch.nn as nn
import torch.nn.init as init
import torch.optim as optim
from torch.utils.data import DataLoader, Dataset


class Patches(Dataset):
    def __init__(self, n, upscale):
        self.n, self.upscale = n, upscale

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        target = torch.rand(1, 16, 16, generator=generator)
        target = torch.nn.functional.avg_pool2d(target, 3, 1, 1)
        small = torch.nn.functional.interpolate(
            target[None], scale_factor=1 / self.upscale, mode="bicubic", antialias=True
        )
        return small[0], target


class Net(nn.Module):
    def __init__(self, upscale_factor):
        super().__init__()
        self.relu = nn.ReLU()
        self.conv1 = nn.Conv2d(1, 8, (5, 5), (1, 1), (2, 2))
        self.conv2 = nn.Conv2d(8, 8, (3, 3), (1, 1), (1, 1))
        self.conv4 = nn.Conv2d(8, upscale_factor**2, (3, 3), (1, 1), (1, 1))
        self.pixel_shuffle = nn.PixelShuffle(upscale_factor)
        self._initialize_weights()

    def forward(self, x):
        x = self.relu(self.conv1(x))
        x = self.relu(self.conv2(x))
        return self.pixel_shuffle(self.conv4(x))

    def _initialize_weights(self):
        init.orthogonal_(self.conv1.weight, init.calculate_gain("relu"))
        init.orthogonal_(self.conv2.weight, init.calculate_gain("relu"))
        init.orthogonal_(self.conv4.weight)


if __name__ == "__main__":
    torch.manual_seed(123)
    loader = DataLoader(Patches(16, 2), num_workers=2, batch_size=4, shuffle=True)
    model = Net(upscale_factor=2)
    criterion = nn.MSELoss()
    optimizer = optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(2):
        epoch_loss = 0
        for batch in loader:
            input, target = batch[0], batch[1]
            optimizer.zero_grad()
            loss = criterion(model(input), target)
            epoch_loss += loss.item()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: {epoch_loss / len(loader):.5f}")
    with torch.no_grad():
        psnr = sum(10 * log10(1 / criterion(model(x), y).item()) for x, y in loader)
    print(f"PSNR {psnr / len(loader):.3f} dB")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model_epoch.pth")
        torch.save(model, path)
        loaded = torch.load(path, weights_only=False)
        image = torch.rand(1, 1, 8, 8)
        print(torch.equal(loaded(image), model(image)))
