"""EMNIST's six splits, out of their archive; noise that an index always gives again."""

import gzip
import hashlib
import struct
import zipfile

import pytest

import rushlight as rl
from rushlight.datasets import EMNIST, FakeData
from rushlight.transforms import ToTensor


def idx(*sizes, numbers):
    head = struct.pack(f">HBB{len(sizes)}I", 0, 8, len(sizes), *sizes)
    return head + bytes(numbers)


@pytest.fixture
def mirror(tmp_path, monkeypatch):
    archive = tmp_path / "mirror" / "gzip.zip"
    archive.parent.mkdir()
    with zipfile.ZipFile(archive, "w") as members:
        for split, top in (("letters", 26), ("balanced", 46)):
            for part, count in (("train", 5), ("test", 2)):
                begin = f"gzip/emnist-{split}-{part}"
                images = idx(count, 28, 28, numbers=[7] * (count * 784))
                labels = idx(count, numbers=range(top - count + 1, top + 1))
                members.writestr(f"{begin}-images-idx3-ubyte.gz", gzip.compress(images))
                members.writestr(f"{begin}-labels-idx1-ubyte.gz", gzip.compress(labels))
    monkeypatch.setattr(EMNIST, "mirrors", [archive.parent.as_uri() + "/"])
    sum_ = hashlib.md5(archive.read_bytes()).hexdigest()
    monkeypatch.setattr(EMNIST, "packed_md5", sum_)
    return archive


def test_splits_come_out_of_their_archive(mirror, tmp_path):
    data = EMNIST(tmp_path, "letters", download=True, transform=ToTensor())
    assert len(data) == 5 and data.targets.tolist() == [22, 23, 24, 25, 26]
    assert data.classes[data[4][1]] == "z" and data[0][0].shape == (1, 28, 28)
    assert "Split: letters, Train" in repr(data)
    mirror.unlink()
    assert len(EMNIST(tmp_path, "letters", train=False, download=True)) == 2
    assert not list((tmp_path / "EMNIST" / "raw").glob("*.part"))
    with pytest.raises(RuntimeError, match="Dataset not found"):
        EMNIST(tmp_path, "balanced")


def test_merged_splits_have_fewer_classes(mirror, tmp_path):
    data = EMNIST(tmp_path, "balanced", download=True)
    assert (len(data.classes), data.class_to_idx["A"]) == (47, 10)


def test_wrong_splits_and_archives_are_refused(mirror, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="Unknown value 'words' for argument split"):
        EMNIST(tmp_path, "words")
    monkeypatch.setattr(EMNIST, "packed_md5", "0" * 32)
    with pytest.raises(RuntimeError, match="the archive's md5 is"):
        EMNIST(tmp_path, "letters", download=True)
    mirror.unlink()
    with pytest.raises(RuntimeError, match="cannot download emnist-letters"):
        EMNIST(tmp_path, "letters", download=True)


def test_noise_is_the_same_for_the_same_index():
    data = FakeData(4, (3, 5, 6), 7, transform=ToTensor())
    state = rl.get_rng_state()
    (one, first), (again, same) = data[1], data[1]
    assert rl.equal(one, again) and first == same and 0 <= first < 7
    assert rl.equal(rl.get_rng_state(), state)
    other = FakeData(4, (3, 5, 6), 7, transform=ToTensor(), random_offset=1)
    assert rl.equal(other[0][0], one)
    with pytest.raises(IndexError):
        data[4]
