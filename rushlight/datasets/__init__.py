"""Data sets of images, fetched, verified and read."""

from rushlight.datasets.mnist import KMNIST, MNIST, FashionMNIST

__all__ = ["FashionMNIST", "KMNIST", "MNIST"]
