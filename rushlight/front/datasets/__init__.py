"""Data sets of images, fetched, verified and read."""

from rushlight.datasets.cifar import CIFAR10, CIFAR100
from rushlight.datasets.emnist import EMNIST
from rushlight.datasets.fake import FakeData
from rushlight.datasets.folder import DatasetFolder, ImageFolder
from rushlight.datasets.mnist import KMNIST, MNIST, FashionMNIST

__all__ = [
    "CIFAR10",
    "CIFAR100",
    "DatasetFolder",
    "EMNIST",
    "FakeData",
    "FashionMNIST",
    "ImageFolder",
    "KMNIST",
    "MNIST",
]
