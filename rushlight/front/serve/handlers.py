"""Handlers: what becomes of requests, one by one and as a batch.

A handler reads each request to a sample, runs the samples together and writes each
result. A wrong request does not fail those that came with it: where a batch fails, each
of its requests runs alone.
"""

import io
import json
import math
import re
from dataclasses import dataclass, field

import rushlight as torch

JSON, NPY = "application/json", "application/x-npy"
BYTES = "application/octet-stream"


class BadRequest(ValueError):
    """What is wrong with a request; the caller is told so, with status 400."""


@dataclass
class Request:
    """A request: its body, what type that has, and what type the answer shall have."""

    body: bytes
    content_type: str = JSON
    accept: str = JSON


@dataclass
class Response:
    """An answer: its body, type and status."""

    body: bytes
    content_type: str = JSON
    status: int = 200
    headers: dict = field(default_factory=dict)


def as_json(value, status=200):
    """An answer with a value as JSON; infinities and NaN are texts.

    >>> as_json({"a": 1}).body
    b'{"a": 1}'
    """
    return Response(json.dumps(_finite(value)).encode(), JSON, status)


def _finite(value):
    if isinstance(value, float) and not math.isfinite(value):
        return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value


def fault(status, kind, message):
    """An answer that says what went wrong, as TorchServe writes it."""
    return as_json({"code": status, "type": kind, "message": message}, status)


def decoded_json(body):
    """The value of a body of JSON.

    Raises:
        BadRequest: it is none.
    """
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"the body is no JSON: {error}") from None


class Handler:
    """What answers the requests of one model.

    Args:
        archive: the archive, for its files and options.
        model: what the archive holds, ready to be called.

    A handler of one's own overrides :meth:`read`, :meth:`run` or :meth:`write`.
    """

    def __init__(self, archive, model):
        self.archive, self.model = archive, model
        self.options = archive.options

    def read(self, request):
        """The sample of a request."""
        return decoded_json(request.body)

    def run(self, samples):
        """The results of samples, in their order."""
        return [self.model(sample) for sample in samples]

    def write(self, result, request):
        """The answer of a result."""
        return as_json(result)

    def handle(self, requests):
        """The answers of a batch of requests, in their order."""
        answers, samples, positions = [None] * len(requests), [], []
        for position, request in enumerate(requests):
            try:
                samples.append(self.read(request))
                positions.append(position)
            except BadRequest as error:
                answers[position] = fault(400, "BadRequestException", str(error))
            except Exception as error:
                answers[position] = _failed(error)
        if samples:
            for position, result in zip(positions, self._results(samples)):
                answers[position] = self._written(result, requests[position])
        return answers

    def _results(self, samples):
        """The results of samples; in the place of each that fails its exception."""
        try:
            with torch.inference_mode():
                results = list(self.run(samples))
            if len(results) != len(samples):
                raise RuntimeError(
                    f"the handler gave {len(results)} results for {len(samples)} requests"
                )
            return results
        except Exception as error:
            if len(samples) == 1:
                return [error]
        return [result for sample in samples for result in self._results([sample])]

    def _written(self, result, request):
        try:
            if isinstance(result, Exception):
                raise result
            return self.write(result, request)
        except BadRequest as error:
            return fault(400, "BadRequestException", str(error))
        except Exception as error:
            return _failed(error)


def _failed(error):
    words = f"{type(error).__name__}: {error}"[:2000]
    return fault(500, "PredictionException", words)


# -- tensors ---------------------------------------------------------------------------


def read_tensor(value, dtype=None):
    """A tensor from lists, or from ``{"data": …, "dtype": …}``.

    Args:
        value: what JSON gave.
        dtype: the name of its type where it names none; by default as numbers are.

    Raises:
        BadRequest: lists of different lengths, or an unknown type.

    >>> read_tensor([[1, 2.5]])
    tensor([[1.0000, 2.5000]])
    """
    if isinstance(value, dict):
        if "data" not in value:
            raise BadRequest("a tensor is a list, or has 'data' and 'dtype'")
        dtype, value = value.get("dtype", dtype), value["data"]
    kind = None if dtype is None else getattr(torch, str(dtype), None)
    if dtype is not None and not isinstance(kind, torch.dtype):
        raise BadRequest(f"there is no dtype {dtype!r}")
    if not isinstance(value, (list, int, float, bool)):
        raise BadRequest(f"a tensor is made of numbers, not of {type(value).__name__}")
    try:
        return torch.tensor(value, dtype=kind)
    except (ValueError, TypeError, RuntimeError, OverflowError) as error:
        raise BadRequest(f"no tensor: {error}") from None


def read_npy(body):
    """A tensor from a file of NumPy's format; nothing in it is unpickled.

    Raises:
        BadRequest: it is no such file, or holds objects.
    """
    import numpy

    try:
        return torch.from_numpy(
            numpy.lib.format.read_array(io.BytesIO(body), allow_pickle=False)
        )
    except (ValueError, TypeError, EOFError, OSError) as error:
        raise BadRequest(f"the body is no .npy file: {error}") from None


def npy(tensor):
    """The bytes of a tensor in NumPy's format."""
    import numpy

    file = io.BytesIO()
    numpy.lib.format.write_array(file, tensor.numpy(), allow_pickle=False)
    return file.getvalue()


class TensorHandler(Handler):
    """Tensors in, tensors out: JSON (``{"inputs": …}``) or NumPy's files.

    The option ``join`` says how requests become a batch: ``"stack"`` puts samples side by
    side along a new first dimension, ``"concatenate"`` those that have one already;
    without it each request runs alone. ``dtype`` names the type of numbers that come
    without one, ``operands`` how many tensors a request's list has.
    """

    def read(self, request):
        """The operands: a tuple of tensors."""
        if request.content_type in (NPY, BYTES):
            return (read_npy(request.body),)
        value, kind = decoded_json(request.body), self.options.get("dtype")
        value = value.get("inputs", value) if isinstance(value, dict) else value
        if isinstance(value, dict) and "data" not in value:
            return tuple(read_tensor(item, kind) for item in value.values())
        if self.options.get("operands", 1) > 1:
            if not isinstance(value, list) or len(value) != self.options["operands"]:
                raise BadRequest(f"the model takes {self.options['operands']} operands")
            return tuple(read_tensor(item, kind) for item in value)
        return (read_tensor(value, kind),)

    def run(self, samples):
        """The results, of samples of one shape together."""
        join = self.options.get("join")
        results = [None] * len(samples)
        for positions in (
            self.grouped(samples) if join else [[n] for n in range(len(samples))]
        ):
            columns = list(zip(*(samples[position] for position in positions)))
            if not join:
                results[positions[0]] = self.model(*samples[positions[0]])
                continue
            sizes = [
                len(samples[p][0]) if join == "concatenate" else 1 for p in positions
            ]
            make = torch.cat if join == "concatenate" else torch.stack
            found = self.model(*map(make, columns))
            for position, part in zip(positions, parts_of(found, sizes, join)):
                results[position] = part
        return results

    def grouped(self, samples):
        """Places of samples that can be one batch: same types, and same sizes of rows."""
        first = 1 if self.options["join"] == "concatenate" else 0
        groups: dict = {}
        for position, sample in enumerate(samples):
            if first and any(not t.dim() or len(t) != len(sample[0]) for t in sample):
                raise BadRequest("operands have one number of rows")
            key = tuple((t.dtype, tuple(t.shape[first:])) for t in sample)
            groups.setdefault(key, []).append(position)
        return groups.values()

    def write(self, result, request):
        """The answer, as the request accepts it."""
        if request.accept == NPY and isinstance(result, torch.Tensor):
            return Response(npy(result), NPY)
        return as_json({"outputs": _lists(result)})


def parts_of(found, sizes, join):
    """What each request gets of a batch's result."""
    if isinstance(found, torch.Tensor):
        parts = found.split(sizes)
        return [part[0] for part in parts] if join == "stack" else list(parts)
    if isinstance(found, dict):
        columns = [parts_of(value, sizes, join) for value in found.values()]
        return [dict(zip(found, row)) for row in zip(*columns)]
    return [type(found)(row) for row in zip(*(parts_of(v, sizes, join) for v in found))]


def _lists(result):
    if isinstance(result, torch.Tensor):
        return result.tolist()
    if isinstance(result, dict):
        return {key: _lists(value) for key, value in result.items()}
    if isinstance(result, (list, tuple)):
        return [_lists(value) for value in result]
    return result


# -- classes ---------------------------------------------------------------------------


class Classifier(Handler):
    """Scores to the likeliest classes, named by the archive's ``index_to_name.json``."""

    def __init__(self, archive, model):
        super().__init__(archive, model)
        self.names = {}
        if "index_to_name.json" in archive.manifest["files"]:
            self.names = json.loads(archive.read("index_to_name.json"))

    def run(self, samples):
        """Rows of probabilities."""
        return torch.softmax(self.model(torch.stack(samples)), -1).unbind(0)

    def write(self, result, request):
        """The likeliest classes with their probabilities, the likeliest first."""
        count = min(int(self.options.get("topk", 5)), len(result))
        values, positions = result.topk(count)
        named = [self.name(position) for position in positions.tolist()]
        return as_json(dict(zip(named, values.tolist())))

    def name(self, position):
        """The name of a class; TorchServe's tables name classes by lists too."""
        found = self.names.get(str(position), str(position))
        return found[-1] if isinstance(found, list) else found


class ImageClassifier(Classifier):
    """A picture in, classes out: resized, cut in the middle, normalized as for ImageNet.

    Options: ``resize`` (256), ``crop`` (224), ``mean``, ``std``, ``topk`` (5).
    """

    most_pixels = 64_000_000

    def read(self, request):
        """The picture as channels of numbers."""
        try:
            from PIL import Image
        except ImportError as error:
            raise RuntimeError("pictures need Pillow: rushlight[images]") from error
        try:
            picture = Image.open(
                io.BytesIO(request.body), formats=("PNG", "JPEG", "WEBP")
            )
            if picture.width * picture.height > self.most_pixels:
                raise BadRequest(f"the picture has more than {self.most_pixels} pixels")
            return self.tensor(picture.convert("RGB"))
        except BadRequest:
            raise
        except Exception as error:
            raise BadRequest(f"the body is no picture: {error}") from None

    def tensor(self, picture):
        """The middle of the picture in the size of the model."""
        import numpy

        size, crop = self.options.get("resize", 256), self.options.get("crop", 224)
        scale = size / min(picture.size)
        wide, high = (max(crop, round(side * scale)) for side in picture.size)
        left, top = round((wide - crop) / 2), round((high - crop) / 2)
        cut = picture.resize((wide, high)).crop((left, top, left + crop, top + crop))
        pixels = torch.from_numpy(numpy.array(cut)).permute(2, 0, 1).float() / 255
        mean = torch.tensor(self.options.get("mean", [0.485, 0.456, 0.406]))
        std = torch.tensor(self.options.get("std", [0.229, 0.224, 0.225]))
        return (pixels - mean[:, None, None]) / std[:, None, None]


class TextClassifier(Classifier):
    """A text in, classes out: words numbered by the archive's ``vocabulary.json``.

    Options: ``length`` (64) words are read, what is missing is ``padding`` (0), words that
    are not known are ``unknown`` (1).
    """

    def __init__(self, archive, model):
        super().__init__(archive, model)
        self.words = json.loads(archive.read("vocabulary.json"))

    def read(self, request):
        """The numbers of the text's words."""
        text = request.body.decode("utf-8", "replace")
        if request.content_type == JSON:
            value = decoded_json(request.body)
            text = value.get("text") if isinstance(value, dict) else value
            if not isinstance(text, str):
                raise BadRequest("a text is expected, or {'text': …}")
        length = self.options.get("length", 64)
        unknown = self.options.get("unknown", 1)
        found = re.findall(r"\w+|[^\w\s]", text.lower())[:length]
        numbers = [self.words.get(word, unknown) for word in found]
        numbers += [self.options.get("padding", 0)] * (length - len(numbers))
        return torch.tensor(numbers)


HANDLERS = {
    "tensor": TensorHandler,
    "image_classification": ImageClassifier,
    "text_classification": TextClassifier,
}
