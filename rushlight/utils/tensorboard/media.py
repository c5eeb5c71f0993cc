"""Sounds, moving pictures and surfaces as the messages that TensorBoard reads."""

import io
import json

import numpy as np
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.plugins.mesh import metadata
from tensorboard.plugins.mesh.plugin_data_pb2 import MeshPluginData

from rushlight.utils.tensorboard.summary import make_np


def mesh(tag, vertices, colors, faces, config_dict):
    """A surface, or a cloud of points.

    Args:
        tag: its name.
        vertices: places in space, ``(batch, points, 3)``.
        colors: of the points, from 0 to 255, or None.
        faces: numbers of the points of each triangle, or None.
        config_dict: options of the display, or None.
    """
    parts = [
        (MeshPluginData.VERTEX, vertices),
        (MeshPluginData.FACE, faces),
        (MeshPluginData.COLOR, colors),
    ]
    parts = [(kind, make_np(part)) for kind, part in parts if part is not None]
    components = metadata.get_components_bitmask([kind for kind, _ in parts])
    options = json.dumps(config_dict or {}, sort_keys=True)
    values = []
    for kind, part in parts:
        sizes = [TensorShapeProto.Dim(size=size) for size in part.shape]
        tensor = TensorProto(
            dtype="DT_FLOAT",
            float_val=part.reshape(-1).tolist(),
            tensor_shape=TensorShapeProto(dim=sizes),
        )
        facts = metadata.create_summary_metadata(
            tag, None, kind, components, part.shape, None, json_config=options
        )
        name = metadata.get_instance_name(tag, kind)
        values.append(Summary.Value(tag=name, tensor=tensor, metadata=facts))
    return Summary(value=values)


def audio(tag, tensor, sample_rate=44100):
    """A sound of one channel.

    Args:
        tag: its name.
        tensor: amplitudes from -1 to 1; what is beyond is cut off.
        sample_rate: samples in a second.

    Raises:
        AssertionError: there is more than one channel.
    """
    import wave

    samples = make_np(tensor).squeeze()
    if np.abs(samples).max(initial=0) > 1:
        print("warning: audio amplitude out of range, auto clipped.")
        samples = samples.clip(-1, 1)
    assert samples.ndim == 1, "input tensor should be 1 dimensional."
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(sample_rate)
        sound.writeframes((samples * 32767).astype("<i2").tobytes())
    made = Summary.Audio(
        sample_rate=sample_rate,
        num_channels=1,
        length_frames=samples.shape[-1],
        encoded_audio_string=file.getvalue(),
        content_type="audio/wav",
    )
    return Summary(value=[Summary.Value(tag=tag, audio=made)])


def frames(videos):
    """Videos side by side, as pictures: ``(N, T, C, H, W)`` -> ``(T, H', W', C)``.

    >>> frames(np.zeros((3, 5, 1, 2, 4), np.uint8)).shape
    (5, 4, 8, 1)
    """
    count = 1 << (len(videos) - 1).bit_length()
    rows = 1 << ((count.bit_length() - 1) // 2)
    blank = np.zeros((count - len(videos), *videos.shape[1:]), videos.dtype)
    grid = np.concatenate([videos, blank])
    _, length, channels, height, width = grid.shape
    grid = grid.reshape(rows, count // rows, length, channels, height, width)
    grid = grid.transpose(2, 0, 4, 1, 5, 3)
    return grid.reshape(length, rows * height, count // rows * width, channels)


def video(tag, tensor, fps=4):
    """Moving pictures, as a GIF.

    Args:
        tag: its name.
        tensor: bytes, or numbers from 0 to 1: ``(N, T, C, H, W)``.
        fps: pictures in a second.
    """
    from PIL import Image

    array = make_np(tensor)
    if array.dtype != np.uint8:
        array = (array.astype(np.float32) * 255).clip(0, 255).astype(np.uint8)
    shown = frames(array)
    if shown.shape[-1] == 1:
        shown = shown.repeat(3, -1)
    pictures = [Image.fromarray(picture) for picture in shown]
    file = io.BytesIO()
    pictures[0].save(
        file,
        format="GIF",
        save_all=True,
        append_images=pictures[1:],
        duration=int(1000 / fps),
        loop=0,
    )
    _, height, width, channels = shown.shape
    made = Summary.Image(
        height=height,
        width=width,
        colorspace=channels,
        encoded_image_string=file.getvalue(),
    )
    return Summary(value=[Summary.Value(tag=tag, image=made)])
