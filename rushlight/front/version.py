"""Facts about this build: which PyTorch it follows, and what it was built without."""

from rushlight.torch_version import __version__ as _version

__all__ = ["__version__", "cuda", "debug", "git_version", "hip", "rocm", "xpu"]

__version__ = str(_version)
debug = False
cuda = None
git_version = "Unknown"  # no revision of PyTorch's source is in it
hip = None
rocm = None
xpu = None
