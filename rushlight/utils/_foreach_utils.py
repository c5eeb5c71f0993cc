"""Groups of tensors for updates of many at once, and which devices have those."""

from rushlight.core.tensor import Tensor

_foreach_supported_types = [Tensor]


def _get_foreach_kernels_supported_devices():
    """Types of devices beside the host where updates of many at once pay."""
    return ["cuda", "xpu", "mtia", "privateuseone"]


def _get_fused_kernels_supported_devices():
    """Types of devices that have updates in one kernel."""
    return ["mps", "cuda", "xpu", "hpu", "cpu", "mtia", "privateuseone"]


def _group_tensors_by_device_and_dtype(tensorlistlist, with_indices=False):
    """Lists of tensors side by side, split by the first list's devices and types.

    Args:
        tensorlistlist: lists of one length; the later ones may hold None.
        with_indices: tells at which places the members of a group were.

    Returns:
        A dictionary from pairs of device and type to pairs: the lists, and the places.

    Raises:
        RuntimeError: the lists differ in length.

    >>> import rushlight as rl
    >>> found = _group_tensors_by_device_and_dtype([[rl.ones(1), rl.arange(2)]], True)
    >>> [(str(kind), positions) for (_, kind), (_, positions) in found.items()]
    [('rushlight.float32', [0]), ('rushlight.int64', [1])]
    """
    first = tensorlistlist[0]
    if any(len(other) not in (0, len(first)) for other in tensorlistlist):
        raise RuntimeError("Tensor lists must have the same length")
    groups: dict = {}
    for place, tensor in enumerate(first):
        key = (tensor.device, tensor.dtype)
        lists, positions = groups.setdefault(key, ([[] for _ in tensorlistlist], []))
        for held, given in zip(lists, tensorlistlist):
            if given:
                held.append(given[place])
        if with_indices:
            positions.append(place)
    return groups


def _device_has_foreach_support(device):
    """Whether a device updates many tensors at once."""
    return device.type in (*_get_foreach_kernels_supported_devices(), "cpu")


def _has_foreach_support(tensors, device):
    """Whether these tensors can be updated at once where they are."""
    return _device_has_foreach_support(device) and all(
        tensor is None or type(tensor) in _foreach_supported_types for tensor in tensors
    )
