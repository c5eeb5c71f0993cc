"""Other people's PyTorch programs, run on Rushlight without a change.

``install_as_torch`` makes ``torch`` and its submodules names of Rushlight's own modules:
the same objects, which then print as PyTorch's do. ``names`` says what is called what,
``finder`` answers imports, ``relabel`` writes the names on modules and classes, ``missing``
words what is not there, ``pickles`` writes tensors in PyTorch's terms.
"""

import sys

from rushlight.torch_compat.names import VERSION

__all__ = ["VERSION", "install_as_torch", "is_installed"]

_installed = False


def is_installed():
    """Whether ``torch`` means Rushlight in this process."""
    return _installed


def install_as_torch():
    """Makes ``import torch`` mean Rushlight, in this process and those it spawns.

    Call it before anything imports ``torch``; calling it again changes nothing. From then
    on ``torch.nn`` *is* ``rushlight.nn``, classes and values print as PyTorch's, and
    packages that look for an installed PyTorch find version 2.13.0.

    Raises:
        RuntimeError: PyTorch itself is already imported.

    After ``rushlight.install_as_torch()`` a program's imports of PyTorch give Rushlight;
    the guide on running PyTorch programs shows it at work.
    """
    global _installed
    if _installed:
        return
    found = sys.modules.get("torch")
    if found is not None:
        raise RuntimeError(
            "install_as_torch: torch is already imported, from "
            f"{getattr(found, '__file__', 'somewhere')}\n"
            "  remedy: call it before the first `import torch`, or start the program "
            "with `python -m rushlight.run`"
        )
    import rushlight
    from rushlight.torch_compat import finder, pickles, relabel

    sys.meta_path.insert(0, finder.Finder(install_as_torch))
    relabel.rename_values()
    relabel.rename_loaded()
    pickles.install()
    rushlight.__version__ = relabel.version()
    rushlight.torch = rushlight  # type: ignore[attr-defined]  # as PyTorch's holds itself
    _installed = True
