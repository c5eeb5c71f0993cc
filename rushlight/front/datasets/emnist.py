"""Handwritten digits and letters, in six splits."""

import os
import string
from collections.abc import Callable

from rushlight.datasets.mnist import MNIST
from rushlight.datasets.resource import Resource, digest

# Letters whose capitals look alike, and are one class where classes are merged.
_MERGED = frozenset("cijklmopsuvwxyz")
_ALL = sorted(string.digits + string.ascii_letters)
_FEWER = sorted(set(_ALL) - _MERGED)
CLASSES = {
    "byclass": _ALL,
    "bymerge": _FEWER,
    "balanced": _FEWER,
    "letters": ["N/A", *string.ascii_lowercase],
    "digits": list(string.digits),
    "mnist": list(string.digits),
}


class EMNIST(MNIST):
    """Handwritten letters and digits in MNIST's format; the images lie on their sides.

    Args:
        root: the files are in ``root/EMNIST/raw``.
        split: ``byclass``, ``bymerge``, ``balanced``, ``letters``, ``digits`` or
            ``mnist``; targets of ``letters`` begin at 1.
        train, transform, target_transform, download: as for `MNIST`.

    Raises:
        ValueError: there is no such split.
        RuntimeError: a file is missing and cannot be had, or is damaged.
    """

    mirrors = ["https://biometrics.nist.gov/cs_links/EMNIST/"]
    packed_md5: str | None = "58c8d27c78d21e728a6bc7b3cc06412e"
    package = None
    splits = tuple(CLASSES)

    def __init__(
        self,
        root: str | os.PathLike,
        split: str,
        train: bool = True,
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        download: bool = False,
    ):
        if split not in CLASSES:
            raise ValueError(
                f"Unknown value '{split}' for argument split. Valid values are "
                f"{set(CLASSES)}."
            )
        self.split = split
        self.classes = CLASSES[split]
        super().__init__(root, train, transform, target_transform, download)

    @property
    def resources(self):
        """The four files of the split; checksums are of the archive they come in."""
        return [
            Resource(f"emnist-{self.split}-{part}-{kind}")
            for part in ("train", "test")
            for kind in ("images-idx3-ubyte", "labels-idx1-ubyte")
        ]

    def names(self):
        """The files of images and of labels."""
        part = "train" if self.train else "test"
        begin = f"emnist-{self.split}-{part}"
        return f"{begin}-images-idx3-ubyte", f"{begin}-labels-idx1-ubyte"

    def download(self) -> None:
        """Fetches the archive of all splits, and takes this one's files out of it."""
        folder = self.raw_folder
        missing = [
            item
            for item in self.resources
            if not os.path.isfile(os.path.join(folder, item.name))
        ]
        if not missing:
            return
        os.makedirs(folder, exist_ok=True)
        archive = os.path.join(folder, "gzip.zip.part")
        failures = []
        for mirror in self.mirrors:
            try:
                self._take(f"{mirror}gzip.zip", archive, missing)
                return
            except OSError as error:
                failures.append(f"  {mirror}gzip.zip: {error}\n")
        raise RuntimeError(
            f"cannot download {', '.join(item.name for item in missing)}\n"
            + "".join(failures)
            + f"  connect to the network and try again, or put the files into {folder}"
        )

    def _take(self, url, archive, missing):
        import gzip
        import zipfile

        from rushlight.datasets import download

        download.say(f"Downloading {url}")
        download._transfer(url, archive)
        found = digest(archive)
        try:
            if self.packed_md5 not in (None, found):
                raise RuntimeError(
                    f"the archive's md5 is {found}, not {self.packed_md5}\n  from: {url}"
                )
            with zipfile.ZipFile(archive) as members:
                for item in missing:
                    with members.open(f"gzip/{item.name}.gz") as packed:
                        with gzip.open(packed) as file:
                            download._place(self.raw_folder, item, file)
        finally:
            os.unlink(archive)

    def extra_repr(self) -> str:
        """What the data set's text says of the split."""
        return f"Split: {self.split}, {'Train' if self.train else 'Test'}"
