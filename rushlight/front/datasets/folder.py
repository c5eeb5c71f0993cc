"""Files in folders whose names are the classes."""

import os
from collections.abc import Callable
from typing import Any

from rushlight.datasets.pictures import Pictures

IMAGES = (
    ".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp",
)  # fmt: skip


def pil_loader(path):
    """A file's picture in colours, as a Pillow image.

    Raises:
        ModuleNotFoundError: Pillow is not installed.
    """
    from PIL import Image

    with open(path, "rb") as file:
        return Image.open(file).convert("RGB")


class DatasetFolder(Pictures):
    """Files in one folder for each class: ``root/cat/1.png``.

    ``classes`` has the folders' names in order, ``class_to_idx`` their numbers,
    ``samples`` the paths with their classes, and ``targets`` the classes alone.

    Args:
        root: the folder of folders.
        loader: makes of a path what the item holds.
        extensions: the ends of the names of files that count.
        transform: makes of what was loaded what the item holds.
        target_transform: makes of a class what the item holds.
        is_valid_file: says of a path whether it counts, in place of ``extensions``.
        allow_empty: lets folders be without files.

    Raises:
        FileNotFoundError: there are no folders, or one has no files that count.
        ValueError: extensions and ``is_valid_file`` are given, or neither.
    """

    def __init__(
        self,
        root: str | os.PathLike,
        loader: Callable[[str], Any],
        extensions: tuple[str, ...] | None = None,
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ):
        if (extensions is None) == (is_valid_file is None):
            raise ValueError(
                "Both extensions and is_valid_file cannot be None or not None at the "
                "same time"
            )
        self.root = os.path.expanduser(os.fspath(root))
        self.loader = loader
        self.extensions = extensions
        self.transform = transform
        self.target_transform = target_transform
        self.classes, self.class_to_idx = self.find_classes(self.root)
        ends = tuple(end.lower() for end in extensions or ())
        counts = is_valid_file or (lambda path: path.lower().endswith(ends))
        self.samples = self._find(counts, allow_empty)
        self.targets = [target for _, target in self.samples]

    @staticmethod
    def find_classes(directory) -> tuple[list[str], dict[str, int]]:
        """The folders' names in order, and their numbers.

        Raises:
            FileNotFoundError: there are none.
        """
        with os.scandir(directory) as entries:
            classes = sorted(entry.name for entry in entries if entry.is_dir())
        if not classes:
            raise FileNotFoundError(f"Couldn't find any class folder in {directory}.")
        return classes, {name: number for number, name in enumerate(classes)}

    def _find(self, counts, allow_empty):
        samples = []
        empty = []
        for name, number in self.class_to_idx.items():
            before = len(samples)
            folder = os.path.join(self.root, name)
            for place, _, files in sorted(os.walk(folder, followlinks=True)):
                paths = (os.path.join(place, file) for file in sorted(files))
                samples += [(path, number) for path in paths if counts(path)]
            if len(samples) == before:
                empty.append(name)
        if empty and not allow_empty:
            known = ", ".join(self.extensions or ())
            words = f"Found no valid file for the classes {', '.join(empty)}. "
            raise FileNotFoundError(
                words + (f"Supported extensions are: {known}" if known else "")
            )
        return samples

    def __getitem__(self, index):
        path, target = self.samples[index]
        sample = self.loader(path)
        return self._changed(sample, target)

    def __len__(self):
        return len(self.samples)

    def __repr__(self):
        return (
            f"Dataset {type(self).__name__}\n"
            f"    Number of datapoints: {len(self)}\n"
            f"    Root location: {self.root}"
        )


class ImageFolder(DatasetFolder):
    """Pictures in one folder for each class: ``root/cat/1.png``.

    Args:
        root: the folder of folders.
        transform: makes of a Pillow image what the item holds.
        target_transform: makes of a class what the item holds.
        loader: makes of a path an image.
        is_valid_file: says of a path whether it counts; by default by its end.
        allow_empty: lets folders be without pictures.

    Raises:
        FileNotFoundError: there are no folders, or one has no pictures.
    """

    def __init__(
        self,
        root: str | os.PathLike,
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        loader: Callable[[str], Any] = pil_loader,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ):
        super().__init__(
            root,
            loader,
            IMAGES if is_valid_file is None else None,
            transform,
            target_transform,
            is_valid_file,
            allow_empty,
        )
        self.imgs = self.samples
