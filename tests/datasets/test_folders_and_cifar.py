"""Images in folders, and CIFAR's files, which are read without running them."""

import hashlib
import os
import pickle
from pathlib import Path

import numpy as np
import pytest

import rushlight as rl
from rushlight import datasets, transforms
from rushlight.datasets.cifar import read_batch

Image = pytest.importorskip("PIL.Image")


@pytest.fixture
def folder(tmp_path):
    for name, colour in ("cat", (255, 0, 0)), ("dog", (0, 255, 0)):
        (tmp_path / name / "deep").mkdir(parents=True)
        for place in "b.png", "deep/a.JPG", "c.bmp":
            Image.new("RGB", (4, 3), colour).save(tmp_path / name / place)
        (tmp_path / name / "notes.txt").write_text("no picture")
    return tmp_path


def test_folders_are_classes_and_pictures_their_samples(folder):
    data = datasets.ImageFolder(folder, transform=transforms.ToTensor())
    assert data.classes == ["cat", "dog"] and data.class_to_idx == {"cat": 0, "dog": 1}
    names = [os.path.relpath(path, folder) for path, _ in data.samples]
    assert names[:3] == ["cat/b.png", "cat/c.bmp", "cat/deep/a.JPG"]
    assert data.targets == [0, 0, 0, 1, 1, 1] and data.imgs is data.samples
    image, target = data[3]
    assert image.shape == (3, 3, 4) and target == 1
    assert image[:, 0, 0].tolist() == [0, 1, 0]
    assert len(data) == 6 and "6" in repr(data)
    batch, targets = next(iter(rl.utils.data.DataLoader(data, 6)))
    assert batch.shape == (6, 3, 3, 4) and targets.tolist() == data.targets


def test_other_files_count_where_one_says_so(folder):
    data = datasets.DatasetFolder(
        folder,
        loader=lambda path: Path(path).read_text(encoding="utf-8"),
        extensions=(".TXT",),
    )
    assert data[0] == ("no picture", 0) and len(data) == 2
    some = datasets.ImageFolder(folder, is_valid_file=lambda path: "deep" in path)
    assert len(some) == 2


def test_folders_without_files_are_named(folder):
    (folder / "eel").mkdir()
    with pytest.raises(FileNotFoundError, match="no valid file for the classes eel"):
        datasets.ImageFolder(folder)
    assert len(datasets.ImageFolder(folder, allow_empty=True)) == 6
    with pytest.raises(FileNotFoundError, match="any class folder"):
        datasets.ImageFolder(folder / "eel")
    with pytest.raises(ValueError, match="cannot be None"):
        datasets.DatasetFolder(folder, loader=str)


def batch(count, seed):
    generator = np.random.RandomState(seed)
    images = generator.randint(0, 256, (count, 3072), dtype=np.uint8)
    return {b"data": images, b"labels": [i % 10 for i in range(count)]}


@pytest.fixture
def cifar(tmp_path, monkeypatch):
    """A CIFAR of few images, in files as they are."""
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()

    def write(name, value):
        (folder / name).write_bytes(pickle.dumps(value, protocol=2))
        return name, hashlib.md5((folder / name).read_bytes()).hexdigest()

    kind = datasets.CIFAR10
    monkeypatch.setattr(
        kind, "train_list", [write(f"b{i}", batch(4, i)) for i in (1, 2)]
    )
    monkeypatch.setattr(kind, "test_list", [write("t", batch(3, 9))])
    names = {b"label_names": [f"kind {i}" for i in range(10)]}
    monkeypatch.setattr(kind, "meta", write("m", names))
    return tmp_path


def test_cifar_is_read_as_it_was_written(cifar):
    data = datasets.CIFAR10(cifar)
    wanted = batch(4, 2)[b"data"].reshape(4, 3, 32, 32).transpose(0, 2, 3, 1)
    assert (data.data[4:].numpy() == wanted).all()
    assert data.targets == [0, 1, 2, 3] * 2 and data.class_to_idx["kind 3"] == 3
    image, target = data[5]
    assert image.size == (32, 32) and target == 1
    assert (np.asarray(image) == wanted[1]).all()
    tensor, _ = datasets.CIFAR10(cifar, False, transforms.ToTensor())[0]
    assert tensor.shape == (3, 32, 32) and tensor.max() <= 1


def test_files_that_are_damaged_or_missing_are_named(cifar):
    path = cifar / "cifar-10-batches-py" / "t"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(RuntimeError, match="not found or corrupted"):
        datasets.CIFAR10(cifar, train=False)
    with pytest.raises(RuntimeError, match="download=True"):
        datasets.CIFAR100(cifar)


@pytest.mark.parametrize(
    "value",
    [{"x": os.getcwd}, {"x": np.ones(3)}, [1], np.ones((2, 3), np.uint8, order="F")],
    ids=["a program", "floats", "a list", "columns"],
)
def test_programs_and_other_values_are_refused(value):
    with pytest.raises(RuntimeError, match="not a file of CIFAR"):
        read_batch(pickle.dumps(value, protocol=2))
