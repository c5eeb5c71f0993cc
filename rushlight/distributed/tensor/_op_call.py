"""One call of an operator on spread tensors, as rules of propagation see it."""

from dataclasses import dataclass

import rushlight as rl
from rushlight.distributed.tensor._dtensor_spec import DTensorSpec
from rushlight.distributed.tensor.placement_types import Partial, Replicate, Shard


@dataclass(frozen=True)
class Strategy:
    """How one dimension of the mesh may hold the tensors of a call.

    Args:
        outputs: a placement for each tensor that comes out.
        inputs: a placement for each that goes in; None where any will do.
        local: what computes this rank's results, where that is not the operator itself:
            called with the call, the placements of each input and its parts.
    """

    outputs: tuple
    inputs: tuple
    local: object = None


@dataclass(frozen=True)
class TensorArgument:
    """A tensor that goes in: its argument's name, and what it is."""

    name: str
    spec: DTensorSpec


class OperatorCall:
    """An operator with its arguments by name.

    Args:
        func: the operator.
        arguments: values by name, tensors as ``TensorArgument``.
        inputs: the tensors among them, in order.
        outputs: for each tensor that comes out, a tensor on ``meta`` of its sizes.
    """

    def __init__(self, func, arguments, inputs, outputs):
        self.func, self.arguments = func, arguments
        self.inputs, self.outputs = inputs, outputs
        self.mesh = inputs[0].spec.mesh
        self.mesh_dim = 0

    def __getitem__(self, name):
        return self.arguments[name]

    def get(self, name, default=None):
        """The value of an argument that may be left out.

        Args:
            name: the argument's.
            default: what to take where it is.
        """
        return self.arguments.get(name, default)

    def input(self, name):
        """The tensor of an argument; None where it is none.

        Args:
            name: the argument's.
        """
        found = self.arguments.get(name)
        return found if isinstance(found, TensorArgument) else None

    def shape(self, index=0):
        """The sizes of a tensor that goes in.

        Args:
            index: which.
        """
        return self.inputs[index].spec.shape

    def placement(self, index=0):
        """How the mesh's dimension that is looked at holds an input.

        Args:
            index: which.
        """
        return self.inputs[index].spec.placements[self.mesh_dim]

    def placements(self):
        """The same of all inputs."""
        return [self.placement(index) for index in range(len(self.inputs))]

    def partial_kinds(self):
        """The reductions that inputs are shares of, each once."""
        found = [each for each in self.placements() if isinstance(each, Partial)]
        return list(dict.fromkeys(found))

    def size(self):
        """The number of ranks along the mesh's dimension."""
        return self.mesh.size(self.mesh_dim)

    def replicated(self):
        """The strategy in which every rank does everything."""
        whole = Replicate()
        return Strategy((whole,) * len(self.outputs), (whole,) * len(self.inputs))

    def is_even(self, index, dim):
        """Whether ranks have equal parts of an input.

        Args:
            index: the input.
            dim: the dimension that is cut.
        """
        spec, count = self.inputs[index].spec, self.size()
        for other, placement in enumerate(spec.placements):
            if other != self.mesh_dim and placement.is_shard(dim):
                count *= self.mesh.size(other)
        return spec.shape[dim] % count == 0 and spec.shape[dim] > 0

    def aligned(self, strategy_of):
        """Strategies that cut along dimensions along which some input is cut already.

        Args:
            strategy_of: the strategy for a dimension of the first output, or None.
        """
        found = []
        for dim in range(self.outputs[0].dim() if self.outputs else 0):
            made = strategy_of(dim)
            if made is None:
                continue
            current = zip(self.placements(), made.inputs)
            if any(have == want and isinstance(have, Shard) for have, want in current):
                found.append(made)
        return found


def is_small(tensor):
    """Whether a plain tensor stands for a number, the same on all ranks.

    Args:
        tensor: a tensor that is not spread.
    """
    return isinstance(tensor, rl.Tensor) and tensor.numel() == 1
