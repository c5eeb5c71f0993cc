"""What streams hold."""

from collections.abc import Iterator
from typing import Any

from rushlight.utils.data.datapipes._decorator import functional_datapipe
from rushlight.utils.data.datapipes.datapipe import IterDataPipe

__all__ = ["StreamReaderIterDataPipe"]


@functional_datapipe("read_from_stream")
class StreamReaderIterDataPipe(IterDataPipe[tuple[str, Any]]):
    """Each stream's name with what it holds; the stream is closed.

    Args:
        datapipe: pairs of a name and a stream.
        chunk: how much is read at once; all of it where left out.

    >>> import io
    >>> named = [("letters", io.StringIO("abc"))]
    >>> pipe = rl.utils.data.datapipes.iter.IterableWrapper(named, deepcopy=False)
    >>> list(pipe.read_from_stream(2))
    [('letters', 'ab'), ('letters', 'c')]
    """

    def __init__(self, datapipe: IterDataPipe, chunk: int | None = None) -> None:
        self.datapipe = datapipe
        self.chunk = chunk

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        for name, stream in self.datapipe:
            while part := stream.read(self.chunk):
                yield name, part
            stream.close()
