"""PyTorch's names for the compiler of captured programs: here `rushlight.programs`."""

from rushlight._inductor import config

__all__ = ["config", "list_mode_options", "list_options"]


def list_mode_options(mode=None, dynamic=None):
    """What each mode of ``torch.compile`` sets: nothing, there is one way.

    >>> list_mode_options("max-autotune")
    {}
    """
    modes = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
    return {} if mode else {name: {} for name in modes}


def list_options():
    """The names of the settings in `config`."""
    return sorted(name for name in vars(config) if name.islower() and name[0] != "_")
