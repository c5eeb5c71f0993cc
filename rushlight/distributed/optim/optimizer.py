"""An optimizer of parameters that several processes own."""

import threading
from collections import defaultdict

from rushlight.distributed.autograd import get_gradients
from rushlight.distributed.rpc import RRef, remote, rpc_async

__all__ = ["DistributedOptimizer"]


class _LocalOptimizer:
    """The optimizer of one process's parameters.

    Args:
        kind: the optimizer's class.
        references: the parameters.
        args: further arguments.
        kwargs: those by name.
    """

    lock = threading.Lock()

    def __init__(self, kind, references, args, kwargs):
        self.parameters = [each.local_value() for each in references]
        self.optimizer = kind(self.parameters, *args, **kwargs)

    def step(self, context_id):
        """One step with the gradients of a context."""
        grads = get_gradients(context_id)
        with self.lock:
            before = [each.grad for each in self.parameters]
            try:
                for each in self.parameters:
                    each.grad = next((g for t, g in grads.items() if t is each), None)
                self.optimizer.step()
            finally:
                for each, grad in zip(self.parameters, before):
                    each.grad = grad


def _step(reference, context_id):
    reference.local_value().step(context_id)


class DistributedOptimizer:
    """An optimizer on each process that owns some of the parameters.

    Args:
        optimizer_class: the optimizer's class.
        params_rref: references to the parameters.
        args: its further arguments.
        kwargs: those by name.
    """

    def __init__(self, optimizer_class, params_rref, *args, **kwargs):
        by_owner = defaultdict(list)
        for each in params_rref:
            by_owner[each.owner()].append(each)
        self.remote_optimizers: list[RRef] = [
            remote(owner, _LocalOptimizer, (optimizer_class, found, args, kwargs))
            for owner, found in by_owner.items()
        ]

    def step(self, context_id):
        """One step of all processes, with the gradients of a context.

        Args:
            context_id: its number.
        """
        futures = [
            rpc_async(each.owner(), _step, (each, context_id))
            for each in self.remote_optimizers
        ]
        for future in futures:
            future.wait()
