"""Models behind HTTP: archives with checksums, batches, worker processes.

``python -m rushlight.serve DIR`` serves what lies in a folder; the guide is
``docs/guides/serving.md``. The server needs ``pip install rushlight[serve]``; archives and
handlers need nothing besides the package.
"""

from rushlight.serve.archive import Archive, ArchiveError, pack
from rushlight.serve.handlers import (
    BadRequest,
    Handler,
    ImageClassifier,
    Request,
    Response,
    TensorHandler,
    TextClassifier,
    as_json,
)
from rushlight.serve.loading import open_model

__all__ = [
    "Archive",
    "ArchiveError",
    "BadRequest",
    "Handler",
    "ImageClassifier",
    "Request",
    "Response",
    "TensorHandler",
    "TextClassifier",
    "as_json",
    "open_model",
    "pack",
]
