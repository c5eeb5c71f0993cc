"""``DataParallel``: a batch spread over GPUs; without any, the module itself."""

from rushlight import cuda
from rushlight.nn.modules.module import Module

__all__ = ["DataParallel", "data_parallel"]


class DataParallel(Module):
    """Spreads a batch over GPUs; without any, calls the module.

    Args:
        module: a module; it is this one's attribute ``module``, and so in its state.
        device_ids: GPUs; without any they are as good as not given, as in PyTorch.
        output_device: where results are put together.
        dim: the dimension of the batch.

    >>> import rushlight as rl
    >>> model = DataParallel(rl.nn.Linear(2, 1))
    >>> list(model.state_dict())
    ['module.weight', 'module.bias']
    """

    _keeps_its_tensors = "nn.DataParallel module"

    def __init__(self, module, device_ids=None, output_device=None, dim=0):
        super().__init__()
        self.module = module
        self.device_ids: list = []

    def forward(self, *inputs, **kwargs):
        """The module's result."""
        return self.module(*inputs, **kwargs)


def data_parallel(
    module, inputs, device_ids=None, output_device=None, dim=0, module_kwargs=None
):
    """One call of ``DataParallel``, over the GPUs that are there.

    Args:
        module: the module.
        inputs: its arguments, or one.
        device_ids: the GPUs; all by default.
        output_device: where results are gathered.
        dim: the dimension of the batch.
        module_kwargs: arguments by name.

    Raises:
        RuntimeError: there is none.

    >>> import pytest
    >>> if not rl.cuda.is_available():
    ...     with pytest.raises(RuntimeError):
    ...         data_parallel(rl.nn.Linear(2, 1), rl.ones(3, 2))
    """
    if not cuda.is_available():
        raise RuntimeError("device type could not be determined: there is no GPU")
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    return module(*inputs, **(module_kwargs or {}))
