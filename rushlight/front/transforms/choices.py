"""Transforms out of transforms: one of several, several cuts, any order."""

import random

from rushlight.transforms.geometry import CenterCrop, crop, flip, pair, size_of
from rushlight.transforms.transforms import Transform


class RandomChoice(Transform):
    """One of several transforms, drawn by Python's own generator.

    Args:
        transforms: the transforms.
        p: how likely each is, in proportion; all the same where left out.
    """

    def __init__(self, transforms, p=None):
        super().__init__()
        self.transforms = list(transforms)
        self.p = p

    def forward(self, image):
        return random.choices(self.transforms, weights=self.p)[0](image)

    def __repr__(self):
        return f"RandomChoice({self.transforms})(p={self.p})"


class RandomOrder(Transform):
    """Several transforms in an order drawn by Python's own generator."""

    def __init__(self, transforms):
        super().__init__()
        self.transforms = list(transforms)

    def forward(self, image):
        order = list(range(len(self.transforms)))
        random.shuffle(order)
        for which in order:
            image = self.transforms[which](image)
        return image

    def __repr__(self):
        return f"RandomOrder({self.transforms})"


class FiveCrop(Transform):
    """The corners of an image and its middle, as a tuple.

    Args:
        size: of each.

    Raises:
        ValueError: the image is smaller.
    """

    def __init__(self, size):
        super().__init__()
        self.size = pair(size)

    def forward(self, image):
        (height, width), (h, w) = size_of(image), self.size
        if w > width or h > height:
            raise ValueError(
                f"Requested crop size {self.size} is bigger than input size "
                f"{(height, width)}"
            )
        down, right = height - h, width - w
        positions = ((0, 0), (0, right), (down, 0), (down, right))
        corners = [crop(image, top, left, h, w) for top, left in positions]
        return (*corners, CenterCrop(self.size)(image))

    def __repr__(self):
        return f"{type(self).__name__}(size={self.size})"


class TenCrop(FiveCrop):
    """The corners of an image and its middle, and the same of its mirror image.

    Args:
        size: of each.
        vertical_flip: mirror it upside down.
    """

    def __init__(self, size, vertical_flip=False):
        super().__init__(size)
        self.vertical_flip = vertical_flip

    def forward(self, image):
        mirrored = flip(image, -2 if self.vertical_flip else -1)
        return super().forward(image) + super().forward(mirrored)

    def __repr__(self):
        return f"TenCrop(size={self.size}, vertical_flip={self.vertical_flip})"
