"""Small colour photographs of ten kinds of things, or of a hundred."""

import math
import os
import tarfile
from collections.abc import Callable
from typing import Any

import rushlight as rl
from rushlight.datasets.pictures import Pictures
from rushlight.datasets.resource import digest
from rushlight.io import interop
from rushlight.io.unpickler import Reader, UnpicklingError
from rushlight.transforms import ToPILImage

SIDE = 32


class _Array:
    """An array as pickles of NumPy's have it: sizes, a type of bytes, and the bytes."""

    def __init__(self, *arguments):
        self.sizes: tuple = ()
        self.data = b""

    def __setstate__(self, state):
        _, sizes, kind, fortran_order, data = state
        if not isinstance(kind, _Bytes) or fortran_order:
            raise UnpicklingError("an array of something else than bytes in rows")
        data = data.encode("latin-1") if isinstance(data, str) else data
        if not isinstance(sizes, tuple) or math.prod(sizes) != len(data):
            raise UnpicklingError(f"an array of sizes {sizes} with {len(data)} bytes")
        self.sizes, self.data = sizes, data


class _Bytes:
    """The type of unsigned bytes, and nothing else."""

    def __init__(self, name, *flags):
        if name not in ("u1", b"u1"):
            raise UnpicklingError("an array of something else than bytes")

    def __setstate__(self, state):
        pass


def _encode(text, encoding):
    """How protocol 2 spells bytes."""
    if not isinstance(text, str) or encoding != "latin1":
        raise UnpicklingError("bytes can only be encoded from text, as latin1")
    return text.encode("latin1")


_NAMES: dict[tuple[str, str], Any] = {
    (f"numpy.{core}.multiarray", "_reconstruct"): _Array for core in ("core", "_core")
} | {("numpy", "ndarray"): _Array, ("numpy", "dtype"): _Bytes}
_NAMES["_codecs", "encode"] = _encode


def read_batch(data: bytes) -> dict:
    """What a file of CIFAR holds, read without running it as a program.

    Raises:
        RuntimeError: it is damaged, or holds something else.
    """

    def find(module, name):
        if (module, name) not in _NAMES:
            raise UnpicklingError(f"{module}.{name} has no place in it")
        return _NAMES[module, name]

    def refuse(name):
        raise UnpicklingError("it refers to something outside")

    try:
        found = Reader(
            data, find, lambda value: value in (_Array, _Bytes, _encode), refuse
        ).load()
    except UnpicklingError as error:
        raise RuntimeError(f"read_batch: not a file of CIFAR: {error}") from None
    if not isinstance(found, dict):
        raise RuntimeError("read_batch: not a file of CIFAR: it holds no dict")
    # Python 3 writes the keys as bytes, where they were such in Python 2.
    return {k.decode() if isinstance(k, bytes) else k: v for k, v in found.items()}


class CIFAR10(Pictures):
    """50,000 photographs to train on and 10,000 to test, 32 by 32 pixels, 10 kinds.

    ``data`` holds the images as bytes (count, 32, 32, 3), ``targets`` the kinds as a
    list. An item is an image and a kind; the image is a Pillow image unless ``transform``
    starts by making it a tensor.

    Args:
        root: the files are in ``root/cifar-10-batches-py``.
        train: the training images, or the test images.
        transform: makes of an image what the item holds.
        target_transform: makes of a kind what the item holds.
        download: fetch, verify and unpack the archive if files are missing or damaged.

    Raises:
        RuntimeError: a file is missing and cannot be had, or is damaged.
    """

    base_folder = "cifar-10-batches-py"
    url = "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz"
    filename = "cifar-10-python.tar.gz"
    tgz_md5 = "c58f30108f718f92721af3b95e74349a"
    train_list = [
        ("data_batch_1", "c99cafc152244af753f735de768cd75f"),
        ("data_batch_2", "d4bba439e000b95fd0a9bffe97cbabec"),
        ("data_batch_3", "54ebc095f3ab1f0389bbae665268c751"),
        ("data_batch_4", "634d18415352ddfa80567beed471001a"),
        ("data_batch_5", "482c414d41f54cd18b22e5b47cb7c3cb"),
    ]
    test_list = [("test_batch", "40351d587109b95175f43aff81a1287e")]
    meta = ("batches.meta", "5ff9c542aee3614f3951f8cda6e48888")
    label_key, name_key = "labels", "label_names"

    def __init__(
        self,
        root: str | os.PathLike,
        train: bool = True,
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        download: bool = False,
    ):
        self._begin(root, train, transform, target_transform, download)
        files = self.train_list if train else self.test_list
        batches = [self._read(*entry) for entry in files]
        self.targets: list[int] = sum((list(b[self.label_key]) for b in batches), [])
        self.data = rl.cat([self._images(batch["data"]) for batch in batches])
        if len(self.targets) != len(self.data):
            raise RuntimeError(
                f"{type(self).__name__}: {len(self.data)} images but "
                f"{len(self.targets)} labels"
            )
        self.classes = list(self._read(*self.meta)[self.name_key])

    @property
    def class_to_idx(self) -> dict[str, int]:
        """The target of each class name."""
        return {name: i for i, name in enumerate(self.classes)}

    def _path(self, name):
        return os.path.join(self.root, self.base_folder, name)

    def _read(self, name, md5):
        path = self._path(name)
        if not os.path.isfile(path) or (md5 and digest(path) != md5):
            raise RuntimeError(
                "Dataset not found or corrupted. You can use download=True to download "
                f"it\n  file: {path}"
            )
        with open(path, "rb") as file:
            return read_batch(file.read())

    def _images(self, array):
        if array.sizes[1:] != (3 * SIDE * SIDE,):
            raise RuntimeError(f"{type(self).__name__}: images of sizes {array.sizes}")
        flat = interop.from_buffer(bytearray(array.data), rl.uint8, array.sizes)
        return flat.view(-1, 3, SIDE, SIDE).permute(0, 2, 3, 1).contiguous()

    def download(self) -> None:
        """Fetches and unpacks the archive, unless all files are there and good."""
        entries = [*self.train_list, *self.test_list, self.meta]
        if all(
            os.path.isfile(self._path(name)) and digest(self._path(name)) == md5
            for name, md5 in entries
        ):
            return
        from rushlight.hub import download_url_to_file

        os.makedirs(self.root, exist_ok=True)
        path = os.path.join(self.root, self.filename)
        if not os.path.isfile(path) or digest(path) != self.tgz_md5:
            download_url_to_file(self.url, path)
            if digest(path) != self.tgz_md5:
                os.unlink(path)
                raise RuntimeError(
                    f"{self.url} is not the file that it was: its md5 is another"
                )
        with tarfile.open(path) as archive:
            archive.extractall(self.root, filter="data")

    def __getitem__(self, index: int):
        image, target = self.data[index], self.targets[index]
        if not getattr(self.transform, "takes_tensor", False):
            image = ToPILImage()(image.permute(2, 0, 1))
        return self._changed(image, target)

    def __len__(self):
        return len(self.data)

    def __repr__(self):
        return (
            f"Dataset {type(self).__name__}\n"
            f"    Number of datapoints: {len(self)}\n"
            f"    Root location: {self.root}\n"
            f"    Split: {'Train' if self.train else 'Test'}"
        )


class CIFAR100(CIFAR10):
    """As ``CIFAR10``, of a hundred kinds."""

    base_folder = "cifar-100-python"
    url = "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz"
    filename = "cifar-100-python.tar.gz"
    tgz_md5 = "eb9058c3a382ffc7106e4002c42a8d85"
    train_list = [("train", "16019d7e3df5f24257cddd939b257f8d")]
    test_list = [("test", "f0ef6b0ae62326f3e7ffdfab6717acfc")]
    meta = ("meta", "7973b15100ade9c7d40fb424638fde48")
    label_key, name_key = "fine_labels", "fine_label_names"
