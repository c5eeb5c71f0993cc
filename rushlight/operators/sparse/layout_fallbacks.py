"""What other layouts ask of the core, and what refuses operators without a kernel for them.

The kernels are declared: ``sparse_coo:``, ``sparse_csr:`` and ``quantized:`` of an operator's
entry.
"""

from rushlight.core.factories import bind_layouts
from rushlight.dispatch.keys import DispatchKey
from rushlight.dispatch.python_kernels import set_fallback
from rushlight.io.pickling import bind_makers

_MAKERS = (
    "_sparse_coo_tensor_unsafe",
    "_sparse_compressed_tensor_unsafe",
    "_make_per_tensor_quantized_tensor",
    "_make_per_channel_quantized_tensor",
)


def bind(operators):
    """Hands out what makes tensors of layouts; called once, when all operators are defined.

    Args:
        operators: by name and overload.
    """
    bind_layouts(_empty_in_parts)
    bind_makers({name: operators[name] for name in _MAKERS})


def _empty_in_parts(size, dtype, layout, device):
    from rushlight.operators.sparse.sparse_access import empty_in_layout

    return empty_in_layout(list(size), dtype, layout, device)


_REMEDIES = {DispatchKey.QuantizedCPU: "dequantize(), or its form in ops.quantized"}


def _unavailable(key):
    def refuse(op, *args):
        known = ", ".join(DispatchKey(each).name for each in sorted(op.kernels))
        name = key.name
        for device, word in ("is_cuda", "CUDA"), ("is_meta", "Meta"):
            if any(getattr(item, device, False) for item in args):
                name = name.replace("CPU", word)
        raise NotImplementedError(
            f"Could not run '{op.namespace}::{op.name}' with arguments from the "
            f"'{name}' backend.\n  '{op.namespace}::{op.name}' is available for: "
            f"{known or 'nothing'}\n  remedy: {_REMEDIES.get(key, 'to_dense()')}"
        )

    return refuse


def refuse_others():
    """What has no kernel is refused before a dense one reads memory that isn't there."""
    for key in (
        DispatchKey.SparseCPU,
        DispatchKey.SparseCsrCPU,
        DispatchKey.QuantizedCPU,
    ):
        set_fallback(key, _unavailable(key))
