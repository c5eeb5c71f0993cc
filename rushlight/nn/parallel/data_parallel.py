"""``DataParallel``: a batch spread over GPUs; without any, the module itself."""

from __future__ import annotations

from rushlight.nn.modules.module import Module

__all__ = ["DataParallel", "data_parallel"]


def _no_devices(device_ids):
    if device_ids:
        raise AssertionError(
            f"device_ids {list(device_ids)}: Torch not compiled with CUDA enabled\n"
            "  remedy: leave device_ids out; the module then runs on the CPU"
        )


class DataParallel(Module):
    """Spreads a batch over GPUs; without any, calls the module.

    Args:
        module: a module; it is this one's attribute ``module``, and so in its state.
        device_ids: GPUs, of which there are none.
        output_device: where results are put together.
        dim: the dimension of the batch.

    >>> import rushlight as rl
    >>> model = DataParallel(rl.nn.Linear(2, 1))
    >>> list(model.state_dict())
    ['module.weight', 'module.bias']
    """

    def __init__(self, module, device_ids=None, output_device=None, dim=0):
        super().__init__()
        _no_devices(device_ids)
        self.module = module
        self.device_ids: list = []
        self.dim = dim

    def forward(self, *inputs, **kwargs):
        """The module's result."""
        return self.module(*inputs, **kwargs)


def data_parallel(
    module, inputs, device_ids=None, output_device=None, dim=0, module_kwargs=None
):
    """One call of ``DataParallel``: without GPUs, the module's."""
    _no_devices(device_ids)
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    return module(*inputs, **(module_kwargs or {}))
