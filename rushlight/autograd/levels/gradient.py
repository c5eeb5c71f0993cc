"""The level of reverse mode: a graph of its own over the values of the levels outside."""

from rushlight.autograd import methods
from rushlight.autograd.levels.stack import (
    BELOW,
    RECORDED,
    STANDS,
    Level,
    Stand,
    each,
    follow,
    imitate,
    mapped,
    refused_write,
    tensors,
)
from rushlight.core.facts import with_requires_grad
from rushlight.core.state import is_grad_enabled
from rushlight.core.tensor import Tensor
from rushlight.dispatch.declared import INPLACE, OUT
from rushlight.dispatch.keys import DispatchKey, KeySet

KEYS = KeySet(RECORDED.bits | 1 << DispatchKey.Below)


class Captured(Stand):
    """A value of outside that was no argument of the function, or a view of one."""

    __slots__ = ()


class GradientLevel(Level):
    """Records the calls of one ``grad`` or ``vjp``; others' tensors are constants."""

    title = "GradTrackingTensor"
    records = True

    def wrap(self, value, kind=Stand):
        tensor = imitate(value, STANDS | BELOW | RECORDED.bits)
        tensor._stand = kind(self, value)
        return tensor

    def variable(self, value):
        """A tensor of this level to differentiate by."""
        tensor = self.wrap(value)
        if value.is_floating_point() or value.is_complex():
            with_requires_grad(tensor)
        return tensor

    def lifted(self, tensor):
        return tensor if self.owns(tensor) else self.wrap(tensor, Captured)

    def process(self, op, args):
        stand = args[0]._stand if op.form == INPLACE else None
        if op.form == INPLACE and (
            stand is None or stand.level is not self or type(stand) is Captured
        ):
            if not is_grad_enabled():  # a sweep fills in what it has made
                self.outside(op, each(self.unwrap, args))
                return args[0]
            raise refused_write(op)
        wanted = any(tensor.requires_grad for tensor in tensors(args))
        if op.form == OUT and not (wanted and is_grad_enabled()):
            return self.below(op, args)
        return op.redispatch(KEYS, *each(self.lifted, args))

    def below(self, op, args):
        """Compute a recorded call with the values, and wrap what comes."""
        values = each(self.unwrap, args)
        result = self.outside(op, values)
        if op.form == INPLACE:
            follow(args[0], values[0])
            return args[0]
        known = {
            id(value): arg
            for value, arg in zip(values, args)
            if isinstance(value, Tensor)
        }
        kind = type(args[0]._stand) if op.is_view else Stand
        return mapped(
            lambda t: known[id(t)] if id(t) in known else self.wrap(t, kind), result
        )

    @staticmethod
    def settle(outputs):
        """Brings histories up to date of views whose bases were written to since.

        What is recorded for that is recorded by the level, and so while it is open.
        """
        for output in outputs:
            output.grad_fn  # noqa: B018

    def gradients(self, outputs, inputs, cotangents, keep_graph=False, record=True):
        """Values of the gradients by the inputs; None where nothing flows.

        A sweep that does not ``record`` is no part of the graphs of outer levels, either:
        they are handed the grad mode that it runs in.

        Args:
            outputs: tensors of this level.
            inputs: variables of this level.
            cotangents: a gradient for each output, of this level or outside.
        """
        wanted = [
            (output, cotangent)
            for output, cotangent in zip(outputs, cotangents)
            if output.requires_grad
        ]
        if not wanted:
            return [None] * len(inputs)
        outputs, cotangents = zip(*wanted)
        return list(
            methods.grad(
                outputs,
                inputs,
                [None if c is None else self.lifted(c) for c in cotangents],
                retain_graph=keep_graph,
                create_graph=record,
                allow_unused=True,
            )
        )
