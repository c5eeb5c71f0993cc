"""Types that programs for translation are annotated with."""

from typing import Any, Dict, List, Optional, Tuple, Union  # noqa: UP035


class _Broadcasting(type):
    """A type that is one value, or a list of so many of them."""

    def __getitem__(cls, types):
        return _BroadcastingFloats if types is float else cls


class BroadcastingListCls(metaclass=_Broadcasting):
    """One number for all dimensions, or one for each."""


class _BroadcastingFloats(BroadcastingListCls):
    """The same of real numbers."""


BroadcastingList1 = BroadcastingListCls
BroadcastingList2 = BroadcastingListCls
BroadcastingList3 = BroadcastingListCls
BroadcastingList4 = BroadcastingListCls
BroadcastingList5 = BroadcastingListCls
BroadcastingList6 = BroadcastingListCls

__all__ = [
    "Any",
    "BroadcastingList1",
    "BroadcastingList2",
    "BroadcastingList3",
    "BroadcastingList4",
    "BroadcastingList5",
    "BroadcastingList6",
    "BroadcastingListCls",
    "Dict",
    "List",
    "Optional",
    "Tuple",
    "Union",
]
