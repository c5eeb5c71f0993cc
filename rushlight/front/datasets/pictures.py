"""What the data sets of pictures share."""

import os
from collections.abc import Callable

from rushlight.utils.data import Dataset


class Pictures(Dataset):
    """Pictures with their classes, each changed by a function of the caller's."""

    root: str
    train: bool
    transform: Callable | None
    target_transform: Callable | None

    def _begin(self, root, train, transform, target_transform, download):
        """Keeps what the data sets of two parts are asked for, and fetches the files."""
        self.root = os.path.expanduser(os.fspath(root))
        self.train = train
        self.transform = transform
        self.target_transform = target_transform
        if download:
            self.download()

    def download(self) -> None:
        """Fetches the files."""
        raise NotImplementedError(f"{type(self).__name__} has no files to fetch")

    def _changed(self, sample, target):
        """A sample and its class as the caller wants them."""
        if self.transform is not None:
            sample = self.transform(sample)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return sample, target
