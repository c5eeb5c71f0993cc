"""What the programs share: small data of a fixed seed, and a few steps of training."""

import torch


def images():
    """Four pictures and their classes."""
    torch.manual_seed(1)
    return torch.randn(4, 3, 64, 64), torch.arange(4)


def tokens():
    """Four rows of twelve words, and which of them are words."""
    torch.manual_seed(1)
    words = torch.randint(0, 100, (4, 12))
    mask = torch.ones(4, 12, dtype=torch.long)
    mask[1, 8:] = 0
    return words, mask


def train(optimizer, loss, steps=4):
    """Prints the loss of every step."""
    for _ in range(steps):
        optimizer.zero_grad()
        value = loss()
        value.backward()
        optimizer.step()
        print(value.item())
