"""``Variable``: a tensor's old name in autograd, still used to reach the engine."""

from rushlight.autograd.engine import is_checkpoint_valid, queue_callback
from rushlight.core.facts import with_requires_grad
from rushlight.core.tensor import Tensor


class _Engine:
    """The running sweep, for code that queues work at its end."""

    @staticmethod
    def queue_callback(callback):
        """Run ``callback()`` when the backward of this thread ends."""
        queue_callback(callback)

    is_checkpoint_valid = staticmethod(is_checkpoint_valid)


class _VariableMeta(type):
    def __instancecheck__(cls, other):
        return isinstance(other, Tensor)


class Variable(metaclass=_VariableMeta):
    """Calling it gives the tensor back; every tensor is an instance."""

    _execution_engine = _Engine()

    def __new__(cls, data, requires_grad=False):
        return with_requires_grad(data.detach(), requires_grad)
