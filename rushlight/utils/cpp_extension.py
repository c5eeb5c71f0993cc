"""Extensions in C++ against PyTorch's library: there is none to build against."""

__all__ = [
    "CUDA_HOME",
    "ROCM_HOME",
    "BuildExtension",
    "CUDAExtension",
    "CppExtension",
    "include_paths",
    "load",
    "load_inline",
]

CUDA_HOME = None
ROCM_HOME = None
IS_HIP_EXTENSION = False


def _refuse(name):
    raise NotImplementedError(
        f"torch.utils.cpp_extension.{name}: Rushlight has no C++ library that extensions "
        "could be built against\n"
        "  remedy: torch.library.custom_op for operators, rushlight.te for kernels"
    )


def load(name, sources, *args, **kwargs):
    """Not possible.

    Raises:
        NotImplementedError: always.
    """
    _refuse("load")


def load_inline(name, cpp_sources, *args, **kwargs):
    """Not possible.

    Raises:
        NotImplementedError: always.
    """
    _refuse("load_inline")


def CppExtension(name, sources, *args, **kwargs):
    """Not possible.

    Raises:
        NotImplementedError: always.
    """
    _refuse("CppExtension")


def CUDAExtension(name, sources, *args, **kwargs):
    """Not possible.

    Raises:
        NotImplementedError: always.
    """
    _refuse("CUDAExtension")


def include_paths(device_type="cpu", torch_include_dirs=True):
    """Where headers are: nowhere."""
    return []


class BuildExtension:
    """A command of setuptools that would build extensions; it cannot.

    Raises:
        NotImplementedError: always.
    """

    def __init__(self, *args, **kwargs):
        _refuse("BuildExtension")

    @classmethod
    def with_options(cls, **options):
        """The command itself."""
        return cls
