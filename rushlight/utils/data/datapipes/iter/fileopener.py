"""Open files."""

from collections.abc import Iterable, Iterator
from typing import Any

from rushlight.utils.data.datapipes._decorator import functional_datapipe
from rushlight.utils.data.datapipes.datapipe import IterDataPipe
from rushlight.utils.data.datapipes.utils.common import get_file_binaries_from_pathnames

__all__ = ["FileOpenerIterDataPipe"]


@functional_datapipe("open_files")
class FileOpenerIterDataPipe(IterDataPipe[tuple[str, Any]]):
    """Each path with the open file, which is closed once nobody holds it.

    Args:
        datapipe: the paths.
        mode: ``r``, ``t`` or ``rt`` for text, ``b`` or ``rb`` for bytes.
        encoding: of text.
        length: how many there are said to be.

    Raises:
        ValueError: there is no such mode, or bytes have an encoding.
    """

    def __init__(
        self,
        datapipe: Iterable[str],
        mode: str = "r",
        encoding: str | None = None,
        length: int = -1,
    ) -> None:
        super().__init__()
        self.datapipe = datapipe
        self.mode = mode
        self.encoding = encoding
        if mode not in ("b", "t", "rb", "rt", "r"):
            raise ValueError(f"Invalid mode {mode}")
        if "b" in mode and encoding is not None:
            raise ValueError("binary mode doesn't take an encoding argument")
        self.length = length

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        yield from get_file_binaries_from_pathnames(
            self.datapipe, self.mode, self.encoding
        )

    def __len__(self) -> int:
        if self.length == -1:
            raise TypeError(f"{type(self).__name__} instance doesn't have valid length")
        return self.length
