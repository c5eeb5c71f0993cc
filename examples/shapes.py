"""Pictures of shapes in many colours, sizes and places, made as they are needed."""

from report import torch

NAMES = ["disc", "square", "triangle", "cross", "ring", "bars"]


def shapes(count, size=32, kinds=4, noise=0.1, seed=0):
    """So many pictures (count, 3, size, size) and the numbers of their shapes.

    Args:
        count: how many.
        size: of a side, in pixels.
        kinds: how many of the shapes.
        noise: how much chance there is in every pixel.
        seed: the same one gives the same pictures.
    """
    generator = torch.Generator().manual_seed(seed)

    def chance(*shape, low=0.0, high=1.0):
        return low + (high - low) * torch.rand(shape, generator=generator)

    labels = torch.arange(count) % kinds
    places = torch.arange(size) / (size - 1) * 2 - 1
    radius = chance(count, 1, 1, low=0.3, high=0.6)
    y = (places.view(1, size, 1) - chance(count, 1, 1, low=-0.35, high=0.35)) / radius
    x = (places.view(1, 1, size) - chance(count, 1, 1, low=-0.35, high=0.35)) / radius
    x, y = torch.broadcast_tensors(x, y)
    far, square = (x * x + y * y).sqrt(), torch.maximum(x.abs(), y.abs())
    arms = torch.minimum(x.abs(), y.abs())
    masks = [
        far < 1,
        square < 0.85,
        (y < 0.8) & (x.abs() < (y + 1) / 1.8),
        (square < 1) & (arms < 0.3),
        (far < 1) & (far > 0.6),
        (square < 1) & (torch.sin(y * 9) > 0),
    ]
    mask = torch.stack(masks[:kinds])[labels, torch.arange(count)].unsqueeze(1).float()
    front, back = chance(count, 3, 1, 1, low=0.6), chance(count, 3, 1, 1, high=0.4)
    images = mask * front + (1 - mask) * back
    images = images + noise * torch.randn(images.shape, generator=generator)
    return images.sub(0.4).div(0.3), labels
