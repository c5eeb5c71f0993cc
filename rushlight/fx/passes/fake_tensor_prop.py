"""Runs a graph on tensors without elements, and notes what each step gives."""

from rushlight._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from rushlight.core.tensor import Tensor
from rushlight.fx.interpreter import Interpreter

__all__ = ["FakeTensorProp"]


class FakeTensorProp(Interpreter):
    """Puts the result of each step, without elements, into its notes as ``val``.

    Args:
        module: the module.
        mode: the mode of the tensors; a new one where it is left out.

    >>> import rushlight as rl
    >>> from rushlight import fx
    >>> module = fx.symbolic_trace(lambda x: rl.relu(x).sum(0))
    >>> FakeTensorProp(module).propagate(rl.ones(2, 3)).shape
    rushlight.Size([3])
    >>> [tuple(node.meta["val"].shape) for node in module.graph.nodes]
    [(2, 3), (2, 3), (3,), (3,)]
    """

    def __init__(self, module, mode=None):
        super().__init__(module)
        self._mode = mode if mode is not None else FakeTensorMode()

    def run_node(self, n):
        """Runs a step and notes its result.

        Args:
            n: the step.
        """
        result = super().run_node(n)
        n.meta["val"] = result
        return result

    def propagate(self, *args):
        """Runs the module on arguments like these.

        Args:
            args: the arguments; tensors with elements are taken by their looks.
        """
        given = [
            self._mode.from_tensor(one)
            if isinstance(one, Tensor) and not isinstance(one, FakeTensor)
            else one
            for one in args
        ]
        return self.propagate_dont_convert_inputs(*given)

    def propagate_dont_convert_inputs(self, *args):
        """Runs the module on tensors that have no elements already.

        Args:
            args: the arguments.
        """
        with self._mode:
            return super().run(*args)


def mode_of(args):
    """The mode of the fake tensors among arguments; None where there are none.

    Args:
        args: the arguments.
    """
    return next((one.fake_mode for one in args if isinstance(one, FakeTensor)), None)
