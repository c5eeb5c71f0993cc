"""Noise in the form of a data set, to try programs with."""

import rushlight as rl
from rushlight.datasets.pictures import Pictures
from rushlight.transforms import ToPILImage


class FakeData(Pictures):
    """Images of noise with random classes; an index always means the same ones.

    Args:
        size: how many there are.
        image_size: channels, height and width.
        num_classes: how many classes.
        transform: makes of an image what the item holds.
        target_transform: makes of a class what the item holds.
        random_offset: other images for another number.

    >>> data = FakeData(3, (1, 4, 4), 10, transform=rl.transforms.ToTensor())
    >>> image, target = data[2]
    >>> image.shape, len(data)
    (rushlight.Size([1, 4, 4]), 3)
    """

    def __init__(
        self,
        size=1000,
        image_size=(3, 224, 224),
        num_classes=10,
        transform=None,
        target_transform=None,
        random_offset=0,
    ):
        self.size = size
        self.image_size = image_size
        self.num_classes = num_classes
        self.transform = transform
        self.target_transform = target_transform
        self.random_offset = random_offset

    def __getitem__(self, index):
        if index >= self.size:
            raise IndexError(f"{type(self).__name__} index out of range")
        with rl.random.fork_rng():
            rl.manual_seed(index + self.random_offset)
            image = rl.randn(*self.image_size)
            target = int(rl.randint(0, self.num_classes, (1,)))
        image = ToPILImage()(image)
        return self._changed(image, target)

    def __len__(self):
        return self.size

    def __repr__(self):
        return f"Dataset {type(self).__name__}\n    Number of datapoints: {self.size}"
