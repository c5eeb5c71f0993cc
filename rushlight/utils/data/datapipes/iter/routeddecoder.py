"""Files read by what their names say they are."""

import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from rushlight.utils.data.datapipes._decorator import functional_datapipe
from rushlight.utils.data.datapipes.datapipe import IterDataPipe
from rushlight.utils.data.datapipes.utils.common import length_of
from rushlight.utils.data.datapipes.utils.decoder import (
    Decoder,
    basichandlers,
    extension_extract_fn,
    imagehandler,
)

__all__ = ["RoutedDecoderIterDataPipe"]


@functional_datapipe("routed_decode")
class RoutedDecoderIterDataPipe(IterDataPipe[tuple[str, Any]]):
    """Each path with what the stream beside it holds, read by the path's extension.

    Args:
        datapipe: pairs of a path and a stream of bytes.
        handlers: functions of an extension and bytes, asked in their order; those for
            text, numbers, JSON, tensors and images where left out.
        key_fn: the extension of a path.
    """

    def __init__(
        self,
        datapipe: Iterable,
        *handlers: Callable,
        key_fn: Callable = extension_extract_fn,
    ) -> None:
        super().__init__()
        self.datapipe = datapipe
        if not handlers:
            handlers = (basichandlers, imagehandler("torch"))
        self.decoder = Decoder(*handlers, key_fn=key_fn)
        warnings.warn(
            "`RoutedDecoderIterDataPipe()` and its functional API `.routed_decode()` are "
            "deprecated since 1.12 and will be removed in 1.13.",
            FutureWarning,
            stacklevel=2,
        )

    def add_handler(self, *handler: Callable) -> None:
        """Functions that are asked before the others."""
        self.decoder.add_handler(*handler)

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        for data in self.datapipe:
            yield data[0], self.decoder(data)[data[0]]

    def __len__(self) -> int:
        return length_of(self, self.datapipe)
