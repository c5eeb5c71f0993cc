"""The pictures that the transforms' bytes were made of over torchvision."""

import numpy as np
import pytest

import rushlight as rl

Image = pytest.importorskip("PIL.Image")


def inputs():
    """A picture as a Pillow image and another as a tensor of bytes."""
    generator = np.random.RandomState(0)
    picture = generator.randint(0, 255, (37, 29, 3), dtype=np.uint8)
    generator.rand(3, 37, 29)
    tensor = generator.randint(0, 255, (3, 37, 29), dtype=np.uint8)
    return Image.fromarray(picture), rl.from_numpy(tensor)
