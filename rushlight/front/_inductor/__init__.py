"""PyTorch's names for the compiler of captured programs: here `rushlight.graph`."""

from rushlight.core.lazy_imports import lazy_getattr as _lazy_getattr

from rushlight._inductor import config, options

__all__ = [
    "aoti_compile_and_package",
    "aoti_load_package",
    "compile",
    "config",
    "cudagraph_mark_step_begin",
    "list_mode_options",
    "list_options",
    "options",
    "standalone_compile",
]


_COMPILING = frozenset((
    "CompiledArtifact", "aoti_compile_and_package", "aoti_load_package", "compile",
    "standalone_compile",
))  # fmt: skip


__getattr__ = _lazy_getattr(
    __name__, ("compile_fx",), dict.fromkeys(_COMPILING, "compile_fx")
)


def cudagraph_mark_step_begin():
    """Notes the beginning of a step: calls are not recorded."""


def list_mode_options(mode=None, dynamic=None):
    """What each mode of ``torch.compile`` sets, by PyTorch's names.

    Args:
        mode: the mode; all where it is left out.

    Raises:
        RuntimeError: there is no such mode.

    >>> list_mode_options("reduce-overhead")
    {'triton.cudagraphs': True}
    """
    if mode is None:
        return {name: dict(one) for name, one in options.MODES.items()}
    if mode not in options.MODES:
        raise RuntimeError(
            f"Unrecognized mode={mode}, should be one of: {', '.join(options.MODES)}"
        )
    return dict(options.MODES[mode])


def list_options():
    """The names that ``torch.compile(options=...)`` takes: PyTorch's, and our own.

    >>> "epilogue_fusion" in list_options()
    True
    """
    return list(options.OPTIONS)
