"""What Rushlight was built with, as text."""


def show():
    """The parts it stands on, a line each."""
    import platform

    import numpy

    from rushlight import torch_compat
    from rushlight.backends.cpu import get_cpu_capability

    return "\n".join(
        (
            "Rushlight built with:",
            f"  - Python {platform.python_version()}",
            f"  - the names of PyTorch {torch_compat.VERSION}",
            f"  - NumPy {numpy.__version__}",
            "  - kernels compiled through LLVM",
            f"  - CPU capability usage: {get_cpu_capability()}",
            "  - without CUDA, MKL, oneDNN and OpenMP",
            "",
        )
    )


def parallel_info():
    """How many threads there are, as text."""
    import os

    import rushlight as rl

    return (
        f"threads of a kernel: {rl.get_num_threads()}\n"
        f"cores: {os.cpu_count()}\n"
        "parallel backend: Rushlight's own thread pool\n"
    )


def _cxx_flags():
    """The flags of a C++ compiler: there was none."""
    return ""
