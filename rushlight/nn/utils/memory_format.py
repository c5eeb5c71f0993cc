"""The memory format of convolutions' weights."""

from rushlight.nn.modules.conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]


def _convert(module, memory_format, kinds):
    for each in module.modules():
        if isinstance(each, kinds):
            weight = each.weight.detach()
            each.weight.data = weight.clone(memory_format=memory_format)
    return module


def convert_conv2d_weight_memory_format(module, memory_format):
    """Convert the weights of all convolutions over images in a module.

    Args:
        module: the module, which is changed.
        memory_format: ``channels_last`` or ``contiguous_format``.

    Returns:
        The module.

    >>> import rushlight as rl
    >>> layer = rl.nn.Conv2d(8, 4, 3)
    >>> layer = convert_conv2d_weight_memory_format(layer, rl.channels_last)
    >>> layer.weight.is_contiguous(memory_format=rl.channels_last)
    True
    """
    return _convert(module, memory_format, (Conv2d, ConvTranspose2d))


def convert_conv3d_weight_memory_format(module, memory_format):
    """Convert the weights of all convolutions over volumes in a module.

    Args:
        module: the module, which is changed.
        memory_format: ``channels_last_3d`` or ``contiguous_format``.

    Returns:
        The module.

    >>> layer = rl.nn.Conv3d(2, 2, 2)
    >>> layer = convert_conv3d_weight_memory_format(layer, rl.channels_last_3d)
    >>> layer.weight.is_contiguous(memory_format=rl.channels_last_3d)
    True
    """
    return _convert(module, memory_format, (Conv3d, ConvTranspose3d))
