"""Values as the messages that TensorBoard reads."""

import io

import numpy as np
from tensorboard.compat.proto.summary_pb2 import (
    HistogramProto,
    Summary,
    SummaryMetadata,
)
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.plugins.pr_curve.plugin_data_pb2 import PrCurvePluginData
from tensorboard.plugins.text.plugin_data_pb2 import TextPluginData

import rushlight as rl

__all__ = [
    "custom_scalars",
    "histogram",
    "histogram_raw",
    "hparams",
    "image",
    "image_boxes",
    "make_np",
    "pr_curve",
    "pr_curve_raw",
    "scalar",
    "tensor_proto",
    "text",
]


def make_np(x):
    """Numbers as an array: a tensor's, an array's, or a single one.

    Raises:
        NotImplementedError: it is something else.
    """
    if isinstance(x, np.ndarray):
        return x
    if np.isscalar(x):
        return np.array([x])
    if isinstance(x, rl.Tensor):
        found = x.detach().resolve_conj().resolve_neg()
        if found.dtype in (rl.bfloat16, rl.float16):
            found = found.float()
        return found.contiguous().numpy()
    if isinstance(x, (list, tuple)):
        return np.array(x)
    raise NotImplementedError(
        f"Got {type(x)}, but numpy array or torch tensor are expected."
    )


def scalar(name, value, collections=None, new_style=False, double_precision=False):
    """One number.

    Raises:
        AssertionError: there are several.
    """
    numbers = make_np(value).squeeze()
    if numbers.ndim:
        raise AssertionError(
            f"Tensor should contain one element (0 dimensions). Was given size: "
            f"{numbers.size} and {numbers.ndim} dimensions."
        )
    number = float(numbers)
    if not new_style:
        return Summary(value=[Summary.Value(tag=name, simple_value=number)])
    if double_precision:
        tensor = TensorProto(double_val=[number], dtype="DT_DOUBLE")
    else:
        tensor = TensorProto(float_val=[number], dtype="DT_FLOAT")
    data = SummaryMetadata.PluginData(plugin_name="scalars")
    metadata = SummaryMetadata(plugin_data=data)
    return Summary(value=[Summary.Value(tag=name, tensor=tensor, metadata=metadata)])


def tensor_proto(tag, tensor):
    """A whole tensor.

    Raises:
        ValueError: its type is not one that TensorBoard has.
    """
    kinds = {
        rl.float16: ("half_val", "DT_HALF"),
        rl.bfloat16: ("half_val", "DT_BFLOAT16"),
        rl.float32: ("float_val", "DT_FLOAT"),
        rl.float64: ("double_val", "DT_DOUBLE"),
        rl.int8: ("int_val", "DT_INT8"),
        rl.uint8: ("int_val", "DT_UINT8"),
        rl.int16: ("int_val", "DT_INT16"),
        rl.int32: ("int_val", "DT_INT32"),
        rl.int64: ("int64_val", "DT_INT64"),
    }
    if tensor.dtype not in kinds:
        raise ValueError(f"{tag} has unsupported tensor dtype {tensor.dtype}")
    if tensor.numel() >= 2**31:
        raise ValueError(
            f"{tag} is bigger than protocol buffer's hard limit of 2GB size"
        )
    field, kind = kinds[tensor.dtype]
    sizes = [TensorShapeProto.Dim(size=size) for size in tensor.shape]
    values = tensor.detach().flatten()
    if field == "half_val":  # the bits, as numbers
        values = values.view(rl.int16).to(rl.int32).bitwise_and(0xFFFF)
    proto = TensorProto(
        dtype=kind, tensor_shape=TensorShapeProto(dim=sizes), **{field: values.tolist()}
    )
    data = SummaryMetadata.PluginData(plugin_name="tensor")
    metadata = SummaryMetadata(plugin_data=data)
    return Summary(value=[Summary.Value(tag=tag, metadata=metadata, tensor=proto)])


def histogram(name, values, bins, max_bins=None):
    """How many values there are in each of many intervals.

    Raises:
        ValueError: there are no values.
    """
    values = make_np(values).reshape(-1).astype(float)
    if values.size == 0:
        raise ValueError("The input has no element.")
    counts, limits = np.histogram(values, bins=bins)
    if max_bins is not None and len(counts) > max_bins:
        step = len(counts) // max_bins
        rest = len(counts) % step
        if rest:
            counts = np.pad(counts, (0, step - rest))
        counts = counts.reshape(-1, step).sum(axis=-1)
        limits = np.append(limits[:-1][::step], limits[-1])
    # Empty intervals at both ends are left out, but for one that closes the first.
    filled = np.flatnonzero(counts)
    if counts.size == 0 or limits.size == 0 or filled.size == 0:
        raise ValueError("The histogram is empty, please file a bug report.")
    start, end = int(filled[0]), int(filled[-1]) + 1
    if start > 0:
        counts, limits = counts[start - 1 : end], limits[start : end + 1]
    else:
        counts = np.concatenate([[0], counts[:end]])
        limits = limits[: end + 1]
    made = HistogramProto(
        min=values.min(),
        max=values.max(),
        num=len(values),
        sum=values.sum(),
        sum_squares=values.dot(values),
        bucket_limit=limits.tolist(),
        bucket=counts.tolist(),
    )
    return Summary(value=[Summary.Value(tag=name, histo=made)])


def histogram_raw(name, min, max, num, sum, sum_squares, bucket_limits, bucket_counts):
    """A histogram that the program has made itself."""
    made = HistogramProto(
        min=min,
        max=max,
        num=num,
        sum=sum,
        sum_squares=sum_squares,
        bucket_limit=bucket_limits,
        bucket=bucket_counts,
    )
    return Summary(value=[Summary.Value(tag=name, histo=made)])


def image(tag, tensor, rescale=1, dataformats="NCHW"):
    """A picture, or several side by side.

    Args:
        tag: its name.
        tensor: bytes, or numbers from 0 to 1.
        rescale: makes it so much larger.
        dataformats: what the dimensions are: ``N``, ``C``, ``H`` and ``W``.
    """
    array = make_np(tensor)
    factor = 1 if array.dtype == np.uint8 else 255
    array = (arrange(array, dataformats).astype(np.float32) * factor).clip(0, 255)
    made = _encoded(array.astype(np.uint8), rescale)
    return Summary(value=[Summary.Value(tag=tag, image=made)])


def image_boxes(
    tag, tensor_image, tensor_boxes, rescale=1, dataformats="CHW", labels=None
):
    """A picture with rectangles drawn on it."""
    array = arrange(make_np(tensor_image), dataformats)
    factor = 1 if array.dtype == np.uint8 else 255
    array = (array.astype(np.float32) * factor).clip(0, 255).astype(np.uint8)
    made = _encoded(array, rescale, make_np(tensor_boxes), labels)
    return Summary(value=[Summary.Value(tag=tag, image=made)])


def _encoded(array, rescale, boxes=None, labels=None):
    from PIL import Image, ImageDraw

    height, width, channels = array.shape
    picture = Image.fromarray(array)
    if boxes is not None:
        pen = ImageDraw.Draw(picture)
        for i, box in enumerate(boxes.tolist()):
            pen.rectangle(box, outline="red")
            if labels is not None:
                pen.text(box[:2], str(labels[i]), fill="red")
    sizes = int(width * rescale), int(height * rescale)
    picture = picture.resize(sizes, Image.Resampling.LANCZOS)
    file = io.BytesIO()
    picture.save(file, format="PNG")
    return Summary.Image(
        height=sizes[1],
        width=sizes[0],
        colorspace=channels,
        encoded_image_string=file.getvalue(),
    )


def arrange(array, dataformats):
    """Pictures of any order of dimensions as (height, width, 3 or 4 channels).

    Raises:
        AssertionError: the letters do not fit the dimensions.
    """
    letters = dataformats.upper()
    if len(set(letters)) != len(letters):
        raise AssertionError(
            f"You can not use the same dimension shordhand twice. input_format: {letters}"
        )
    if array.ndim != len(letters):
        raise AssertionError(
            "size of input tensor and input format are different. tensor shape: "
            f"{array.shape}, input_format: {letters}"
        )
    if "N" in letters:
        array = array.transpose([letters.index(letter) for letter in "NCHW"])
        return _grid(array).transpose(1, 2, 0)
    if "C" in letters:
        array = array.transpose([letters.index(letter) for letter in "HWC"])
        return np.repeat(array, 3, axis=2) if array.shape[2] == 1 else array
    array = array.transpose([letters.index(letter) for letter in "HW"])
    return np.stack([array] * 3, 2)


def _grid(images):
    """Pictures (count, channels, height, width) as one, eight in a row."""
    count, channels, height, width = images.shape
    if channels == 1:
        images, channels = np.repeat(images, 3, axis=1), 3
    columns = min(8, count)
    rows = -(-count // columns)
    made = np.zeros((channels, rows * height, columns * width), images.dtype)
    for i, picture in enumerate(images):
        y, x = divmod(i, columns)
        place = slice(y * height, (y + 1) * height), slice(x * width, (x + 1) * width)
        made[(slice(None), *place)] = picture
    return made


def text(tag, content):
    """A text, which may be Markdown."""
    data = SummaryMetadata.PluginData(
        plugin_name="text", content=TextPluginData(version=0).SerializeToString()
    )
    tensor = TensorProto(
        dtype="DT_STRING",
        string_val=[content.encode("utf-8")],
        tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)]),
    )
    metadata = SummaryMetadata(plugin_data=data)
    return Summary(
        value=[
            Summary.Value(tag=tag + "/text_summary", metadata=metadata, tensor=tensor)
        ]
    )


def pr_curve(tag, labels, predictions, num_thresholds=127, weights=None):
    """Precision and recall at many thresholds."""
    count = min(num_thresholds, 127)
    weights = 1.0 if weights is None else weights
    buckets = np.floor(predictions * (count - 1)).astype(np.int32)
    span = (0, count - 1)
    true = np.histogram(buckets, bins=count, range=span, weights=labels * weights)[0]
    false = np.histogram(
        buckets, bins=count, range=span, weights=(1.0 - labels) * weights
    )[0]
    tp, fp = np.cumsum(true[::-1])[::-1], np.cumsum(false[::-1])[::-1]
    tn, fn = fp[0] - fp, tp[0] - tp
    least = 1e-7
    shares = tp / np.maximum(least, tp + fp), tp / np.maximum(least, tp + fn)
    return pr_curve_raw(tag, [tp, fp, tn, fn, *shares], count)


def pr_curve_raw(tag, rows, num_thresholds=127):
    """The same, of counts that are known.

    Args:
        tag: the curve's name.
        rows: true positives, false positives, true negatives, false negatives, precision
            and recall at each threshold.
        num_thresholds: how many thresholds.
    """
    rows, count = np.stack([make_np(row) for row in rows]), min(num_thresholds, 127)
    data = SummaryMetadata.PluginData(
        plugin_name="pr_curves",
        content=PrCurvePluginData(version=0, num_thresholds=count).SerializeToString(),
    )
    sizes = [TensorShapeProto.Dim(size=size) for size in rows.shape]
    tensor = TensorProto(
        dtype="DT_FLOAT",
        float_val=rows.reshape(-1).tolist(),
        tensor_shape=TensorShapeProto(dim=sizes),
    )
    metadata = SummaryMetadata(plugin_data=data)
    return Summary(value=[Summary.Value(tag=tag, metadata=metadata, tensor=tensor)])


def custom_scalars(layout):
    """Which scalars are shown together.

    Args:
        layout: for each category its charts: ``["Multiline" or "Margin", tags]``.
    """
    from tensorboard.plugins.custom_scalar import layout_pb2

    categories = []
    for name, charts in layout.items():
        made = []
        for title, (kind, tags) in charts.items():
            if kind == "Margin":
                value, lower, upper = tags
                series = layout_pb2.MarginChartContent.Series(
                    value=value, lower=lower, upper=upper
                )
                content = layout_pb2.MarginChartContent(series=[series])
                made.append(layout_pb2.Chart(title=title, margin=content))
            else:
                lines = layout_pb2.MultilineChartContent(tag=tags)
                made.append(layout_pb2.Chart(title=title, multiline=lines))
        categories.append(layout_pb2.Category(title=name, chart=made))
    whole = layout_pb2.Layout(category=categories)
    data = SummaryMetadata.PluginData(plugin_name="custom_scalars")
    tensor = TensorProto(
        dtype="DT_STRING",
        string_val=[whole.SerializeToString()],
        tensor_shape=TensorShapeProto(),
    )
    metadata = SummaryMetadata(plugin_data=data)
    tag = "custom_scalars__config__"
    return Summary(value=[Summary.Value(tag=tag, tensor=tensor, metadata=metadata)])


def hparams(hparam_dict=None, metric_dict=None, hparam_domain_discrete=None):
    """The choices that a run was made with, and the numbers to compare runs by.

    Returns:
        Three messages: the experiment, the run's beginning and its end.

    Raises:
        TypeError: a table is no dict.
        ValueError: a choice is no number, text or truth value.
    """
    from tensorboard.plugins.hparams import summary_v2

    for name, table in (("hparam_dict", hparam_dict), ("metric_dict", metric_dict)):
        if not isinstance(table, dict):
            raise TypeError(f"{name} should be a dictionary.")
    chosen = {}
    for key, value in hparam_dict.items():
        if value is None:
            continue
        if isinstance(value, rl.Tensor):
            value = value.item()
        if not isinstance(value, (bool, int, float, str)):
            raise ValueError(
                "value should be one of int, float, str, bool, or torch.Tensor"
            )
        chosen[key] = value
    domains = hparam_domain_discrete or {}
    described = [
        summary_v2.HParam(key, summary_v2.Discrete(domains[key]))
        if key in domains
        else summary_v2.HParam(key)
        for key in chosen
    ]
    metrics = [summary_v2.Metric(key) for key in metric_dict]
    experiment = summary_v2.hparams_config_pb(hparams=described, metrics=metrics)
    begin = summary_v2.hparams_pb(chosen)
    return experiment, begin, _session_end()


def _session_end():
    from tensorboard.plugins.hparams import api_pb2, plugin_data_pb2
    from tensorboard.plugins.hparams.metadata import (
        PLUGIN_DATA_VERSION,
        PLUGIN_NAME,
        SESSION_END_INFO_TAG,
    )

    end = plugin_data_pb2.SessionEndInfo(status=api_pb2.Status.STATUS_SUCCESS)
    content = plugin_data_pb2.HParamsPluginData(
        session_end_info=end, version=PLUGIN_DATA_VERSION
    )
    data = SummaryMetadata.PluginData(
        plugin_name=PLUGIN_NAME, content=content.SerializeToString()
    )
    metadata = SummaryMetadata(plugin_data=data)
    return Summary(value=[Summary.Value(tag=SESSION_END_INFO_TAG, metadata=metadata)])
