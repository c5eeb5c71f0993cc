"""What bytes of files mean, by the files' extensions."""

import io
import json
import os.path
import pickle
import tempfile

import rushlight as rl
from rushlight.utils.data.datapipes.utils.common import StreamWrapper

__all__ = [
    "Decoder",
    "ImageHandler",
    "MatHandler",
    "audiohandler",
    "basichandlers",
    "extension_extract_fn",
    "handle_extension",
    "imagehandler",
    "mathandler",
    "videohandler",
]

_NUMBERS = ("cls", "cls2", "class", "count", "index", "inx", "id")


def basichandlers(extension: str, data):
    """Text, a number, JSON, a pickle or tensors, or None for another extension.

    >>> from rushlight.utils.data.datapipes.utils.decoder import basichandlers
    >>> basichandlers("json", b"[1, 2]"), basichandlers("cls", b"7")
    ([1, 2], 7)
    """
    if extension in ("txt", "text", "transcript"):
        return data.decode("utf-8")
    if extension in _NUMBERS:
        try:
            return int(data)
        except ValueError:
            return None
    if extension in ("json", "jsn"):
        return json.loads(data)
    if extension in ("pyd", "pickle"):
        return pickle.loads(data)
    if extension == "pt":
        return rl.load(io.BytesIO(data))
    return None


# Of each kind of image: what it becomes, of what type, with which colours.
imagespecs = {
    f"{kind}{colours}{size}": (made, of, colours)
    for kind, made in (("", "numpy"), ("torch", "torch"))
    for colours in ("l", "rgb", "rgba")
    for size, of in (("8", "uint8"), ("", "float"))
} | {
    "torch": ("torch", "float", "rgb"),
    "pill": ("pil", None, "l"),
    "pil": ("pil", None, "rgb"),
    "pilrgb": ("pil", None, "rgb"),
    "pilrgba": ("pil", None, "rgba"),
}


def handle_extension(extensions, f):
    """A function of a path and bytes that calls ``f`` for some extensions.

    Args:
        extensions: with spaces between them; of several parts, as ``seg.jpg``, too.
        f: a function of bytes.

    >>> from rushlight.utils.data.datapipes.utils.decoder import handle_extension
    >>> upper = handle_extension("txt md", bytes.upper)
    >>> upper("a.MD", b"x"), upper("a.c", b"x")
    (b'X', None)
    """
    targets = [each.split(".") for each in extensions.lower().split()]

    def handler(key, data):
        parts = key.lower().split(".")
        for target in targets:
            if parts[-len(target) :] == target:
                return f(data)
        return None

    return handler


class ImageHandler:
    """Images by their bytes.

    Args:
        imagespec: a key of ``imagespecs``: ``pil``, ``torch`` or nothing for an array,
            the colours ``l``, ``rgb`` or ``rgba``, and ``8`` for bytes, not shares.

    Raises:
        AssertionError: it is none.
    """

    def __init__(self, imagespec) -> None:
        if imagespec not in imagespecs:
            raise AssertionError(f"unknown image specification: {imagespec}")
        self.imagespec = imagespec.lower()

    def __call__(self, extension, data):
        if extension.lower() not in (
            *("jpg", "jpeg", "png", "ppm", "pgm", "pbm", "pnm"),
        ):
            return None
        import numpy

        try:
            import PIL.Image
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "Package `PIL` is required to be installed for default image decoder. "
                "Please use `pip install Pillow` to install the package"
            ) from error
        kind, of, colours = imagespecs[self.imagespec]
        with io.BytesIO(data) as stream:
            image = PIL.Image.open(stream).convert(colours.upper())
        if kind == "pil":
            return image
        array = numpy.asarray(image)
        if kind == "numpy":
            return array if of == "uint8" else array.astype("f") / 255.0
        tensor = rl.tensor(array if array.ndim == 2 else array.transpose(2, 0, 1))
        return tensor if of == "uint8" else tensor / 255.0


def imagehandler(imagespec):
    """What reads images into that form."""
    return ImageHandler(imagespec)


def _through_a_file(extension, data, read):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, f"file.{extension}")
        with open(path, "wb") as stream:
            stream.write(data)
        return read(path)


def videohandler(extension, data):
    """A film, through torchvision, or None for another extension."""
    films = ("mp4", "ogv", "mjpeg", "avi", "mov", "h264", "mpg", "webm", "wmv")
    if extension not in films:
        return None
    try:
        import torchvision.io
    except ImportError as error:
        raise ModuleNotFoundError(
            "Package `torchvision` is required to be installed for default video file "
            "loader. Please use `pip install torchvision` to install the package"
        ) from error
    return _through_a_file(extension, data, torchvision.io.read_video)


def audiohandler(extension, data):
    """A sound, through torchaudio, or None for another extension."""
    if extension not in ("flac", "mp3", "sox", "wav", "m4a", "ogg", "wma"):
        return None
    try:
        import torchaudio
    except ImportError as error:
        raise ModuleNotFoundError(
            "Package `torchaudio` is required to be installed for default audio file "
            "loader. Please use `pip install torchaudio` to install the package"
        ) from error
    return _through_a_file(extension, data, torchaudio.load)


class MatHandler:
    """Matlab's files, through SciPy.

    Args:
        loadmat_kwargs: what ``scipy.io.loadmat`` is told.
    """

    def __init__(self, **loadmat_kwargs) -> None:
        try:
            import scipy.io
        except ImportError as error:
            raise ModuleNotFoundError(
                "Package `scipy` is required to be installed for mat file. Please use "
                "`pip install scipy` to install the package"
            ) from error
        self.sio = scipy.io
        self.loadmat_kwargs = loadmat_kwargs

    def __call__(self, extension, data):
        if extension != "mat":
            return None
        with io.BytesIO(data) as stream:
            return self.sio.loadmat(stream, **self.loadmat_kwargs)


def mathandler(**loadmat_kwargs):
    """What reads Matlab's files."""
    return MatHandler(**loadmat_kwargs)


def extension_extract_fn(pathname):
    """A path's extension, without the dot."""
    return os.path.splitext(pathname)[1][1:]


class Decoder:
    """Asks functions in turn what bytes mean, until one knows.

    Args:
        handler: functions of an extension and bytes that return None for what is not
            theirs.
        key_fn: the extension of a path.
    """

    def __init__(self, *handler, key_fn=extension_extract_fn) -> None:
        self.handlers = list(handler)
        self.key_fn = key_fn

    def add_handler(self, *handler) -> None:
        """Functions that are asked before the others."""
        self.handlers = [*handler, *self.handlers]

    @staticmethod
    def _is_stream_handle(data):
        stream = data.file_obj if isinstance(data, StreamWrapper) else data
        return isinstance(stream, (io.BufferedIOBase, io.RawIOBase))

    def decode1(self, key, data):
        """What bytes, or a stream of them, mean; themselves where nobody knows."""
        if not data:
            return data
        if Decoder._is_stream_handle(data):
            stream, data = data, b"".join(data)
            stream.close()
        for handler in self.handlers:
            result = handler(key, data)
            if result is not None:
                return result
        return data

    def decode(self, data):
        """A dict of what pairs of a path and bytes mean; of one pair, too."""
        result = {}
        for path, value in [data] if isinstance(data, tuple) else data or ():
            if path[0] == "_" and isinstance(value, bytes):
                result[path] = value.decode("utf-8")
            else:
                result[path] = self.decode1(self.key_fn(path), value)
        return result

    def __call__(self, data):
        return self.decode(data)
