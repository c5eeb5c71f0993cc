"""Other implementations of flash attention: they may be named, and are then called."""

import logging
from typing import Any

__all__ = [
    "activate_flash_attention_impl",
    "current_flash_attention_impl",
    "list_flash_attention_impls",
    "register_flash_attention_impl",
    "restore_flash_attention_impl",
]

logger = logging.getLogger(__name__)
_FLASH_ATTENTION_IMPLS: dict[str, Any] = {}
_active: list = []  # the name and the handle of the one that is at work


def register_flash_attention_impl(impl, *, register_fn):
    """Give an implementation a name.

    Args:
        impl: the name.
        register_fn: puts its operators in place when it is activated; returns an object
            whose ``remove()`` takes them away, or None.

    >>> register_flash_attention_impl("mine", register_fn=lambda: None)
    >>> "mine" in list_flash_attention_impls()
    True
    >>> _ = _FLASH_ATTENTION_IMPLS.pop("mine")
    """
    _FLASH_ATTENTION_IMPLS[impl] = register_fn


def activate_flash_attention_impl(impl):
    """Put a named implementation in place of the one that is at work.

    Args:
        impl: the name.

    Raises:
        ValueError: there is none of the name.

    >>> register_flash_attention_impl("mine", register_fn=lambda: None)
    >>> activate_flash_attention_impl("mine")
    >>> _ = _FLASH_ATTENTION_IMPLS.pop("mine")
    """
    restore_flash_attention_impl(_raise_warn=False)
    if impl not in _FLASH_ATTENTION_IMPLS:
        raise ValueError(
            f"Unknown flash attention impl '{impl}'. Available implementations: "
            f"{list_flash_attention_impls()}"
        )
    handle = _FLASH_ATTENTION_IMPLS[impl]()
    if handle is not None:
        _active[:] = [(impl, handle)]


def list_flash_attention_impls():
    """The names, sorted."""
    return sorted(_FLASH_ATTENTION_IMPLS)


def current_flash_attention_impl():
    """The name of the implementation that is at work; None for the first one."""
    return _active[0][0] if _active else None


def restore_flash_attention_impl(_raise_warn=True):
    """Take the implementation away that is at work.

    Args:
        _raise_warn: whether it is told when none is at work.

    >>> restore_flash_attention_impl(_raise_warn=False)
    """
    if _active:
        _active.pop()[1].remove()
    elif _raise_warn:
        logger.warning(
            "Trying to restore default FA2 impl when no custom impl was activated"
        )
