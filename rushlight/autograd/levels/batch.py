"""The level of batches: calls written for one example are made for all at once.

A batched tensor shows its first example's window, so sizes, strides and ranks are those
of one example; what it stands for has one dimension more. Operators get their rule by
kind (`rules`): elementwise operators align their operands behind the batch, those with
dimensions shift them, products and convolutions take the batch as their own. Whatever
has no rule runs example by example, and a warning says so once.
"""

import functools

from rushlight.autograd.levels import rules
from rushlight.autograd.levels.stack import (
    STANDS,
    Level,
    Outside,
    Stand,
    each,
    follow,
    imitate,
    tensors,
)
from rushlight.core import logs
from rushlight.core.device import backend_for
from rushlight.core.tensor import Tensor
from rushlight.core.warning import warn_once
from rushlight.dispatch.declared import (
    ARGUMENTS,
    BATCHING,
    FUNCTIONAL,
    INPLACE,
    NAME,
    OUT,
    TAGS,
)
from rushlight.operators import call
from rushlight.random import get_rng_state, set_rng_state

RANDOM_REFUSED = (
    "vmap: called random operation while in randomness error mode. Please either use "
    "the 'same' or 'different' randomness flags on vmap or perform the randomness "
    "operation out of vmap"
)


def refuse_one_draw(op):
    """Refuses to draw once by the numbers of many examples: they have one each.

    Raises:
        RuntimeError: an operator's generator draws by what a batch holds.
    """
    draws = any(row[0] == "generator" for row in op.entry[ARGUMENTS])
    if op.form == FUNCTIONAL and draws and "geometry" not in op.entry[TAGS]:
        raise RuntimeError(
            "Vmap does not currently support same randomness with a batched tensor input. "
            "Please file an issue with functorch"
        )


class Batched(Stand):
    """The value of all examples, and which of its dimensions counts them."""

    __slots__ = ("dim",)
    opaque = "BatchedTensorImpl"

    def __init__(self, level, value, dim):
        super().__init__(level, value)
        self.dim = dim

    readable = False

    def data(self):
        """Refused: one example has no memory of its own."""
        raise RuntimeError("accessing `data` under vmap transform is not allowed")

    def read(self, method):
        if method == "numpy":
            raise RuntimeError(
                "vmap: It looks like you're calling .numpy() on a Tensor that is vmapped "
                "over: one example has no memory of its own"
            )
        if method == "bool":
            raise RuntimeError(
                "vmap: It looks like you're attempting to use a Tensor in some "
                "data-dependent control flow. We don't support that yet, please file an "
                "issue at https://github.com/pytorch/pytorch/issues ."
            )
        raise RuntimeError(
            f"vmap: It looks like you're calling .{method}() on a Tensor. We don't support "
            f"vmap over calling .{method}() on a Tensor, please try to rewrite what you're "
            "doing with other operations. If error is occurring somewhere inside PyTorch "
            "internals, please file a bug report."
        )

    def text(self, tensor):
        number = self.level.number
        return f"BatchedTensor(lvl={number}, bdim={self.dim}, value={self.value!r})"


class BatchLevel(Level):
    """One ``vmap`` at work."""

    title = "BatchedTensor"

    def __init__(self, size, randomness="error"):
        self.size, self.randomness = size, randomness

    def wrap(self, value, dim=0):
        tensor = imitate(value, STANDS, dim)
        tensor._stand = Batched(self, value, dim)
        return tensor

    def front(self, tensor):
        """The value with the examples along its first dimension; a view."""
        stand = tensor._stand
        return stand.value if stand.dim == 0 else stand.value.movedim(stand.dim, 0)

    def shares(self, tensor):
        """Whether all examples see the same tensor."""
        return not self.owns(tensor)

    def filled(self, tensor):
        """The same for any tensor: one that is not batched is repeated."""
        if self.owns(tensor):
            return self.front(tensor)
        return tensor.unsqueeze(0).expand(self.size, *tensor.shape)

    def process(self, op, args):
        entry = op.entry
        random = bool(entry) and "random" in entry[TAGS]
        batched = False
        for tensor in tensors(args):
            stand = tensor._stand
            if stand is not None and stand.level is self:
                batched = True
                break
        if random:
            self.refuse_random()
        if not batched and not (random and self.randomness == "different"):
            return self.outside(op, args)
        if batched and random and self.randomness == "same":
            refuse_one_draw(op)
        if op.form == INPLACE and not self.owns(args[0]):
            raise self.refused_write(op, batched)
        if op.form == INPLACE and op.is_view:
            return self.move_window(op, args)
        with Outside(self):
            if not random:
                rule = rules.rule_of(op)
                if rule is not None:
                    result = rule(self, op, args)
                    if result is not NotImplemented:
                        return result
            elif entry[BATCHING] == "elementwise" and self.randomness == "different":
                # a number for each element of the first tensor, or of a batch of them
                if batched and self.owns(args[0]):
                    result = rules.elementwise(self, op, args)
                    if result is not NotImplemented:
                        return result
            return self.loop(op, args, random)

    def refused_write(self, op, batched):
        """The refusal to write what examples have of their own to what they share."""
        if not batched:
            return RuntimeError(
                "vmap: Cannot ask for different inplace randomness on an unbatched tensor. "
                "This will appear like same randomness. If this is necessary for your "
                "usage, please file an issue with functorch."
            )
        rule = rules.rule_of(op)
        name = f"aten::{op.name.split('.')[0]}"
        name = "inplace arithmetic" if rule is rules.elementwise else name
        return RuntimeError(
            f"vmap: {name}(self, *extra_args) is not possible because there exists a "
            "Tensor `other` in extra_args that has more elements than `self`. This "
            "happened due to `other` being vmapped over but `self` not being vmapped over "
            f"in a vmap. Please try to use out-of-place operators instead of {name}. If "
            "said operator is being called inside the PyTorch framework, please file a bug "
            "report instead."
        )

    def move_window(self, op, args):
        """A window moved in place: the tensor stands for another view from now on.

        The forms of an operator have one name, and a line below it is of the one that
        writes.
        """
        target = args[0]
        view = getattr(call, op.entry[NAME].removesuffix("_"))(*args)._stand
        target._stand.value, target._stand.dim = view.value, view.dim
        follow(target, view.value, view.dim)
        return target

    def refuse_random(self):
        """Refuses to draw where nobody said for whom.

        Raises:
            RuntimeError: that is so.
        """
        if self.randomness == "error":
            raise RuntimeError(RANDOM_REFUSED)

    def drawn(self, op, args):
        """Example by example, by an operator that draws for these arguments."""
        self.refuse_random()
        return self.loop(op, args, True)

    def loop(self, op, args, random=False):
        """Example by example; the results are stacked.

        Raises:
            RuntimeError: an output of the caller's would have to hold all of them, or
                nothing says which shape the results of no examples have.
        """
        if op.form == OUT:
            raise RuntimeError(
                f"Batching rule not implemented for aten::{op.name}; the fallback path "
                "doesn't work on out= or view ops."
            )
        if not random:
            warn_once(
                "There is a performance drop because we have not yet implemented the "
                f"batching rule for aten::{op.name}: it runs example by example"
            )
        if logs.perf_hints.active:
            why = "it draws" if random else "it has no batching rule"
            logs.perf_hints.say(
                f"vmap: aten::{op.name} runs {self.size} times: {why}", line=True
            )
        if self.size == 0:
            raise RuntimeError(
                f"Batching rule not implemented for aten::{op.name}. The fallback path "
                "does not support vmap over dims of size 0."
            )
        same = random and self.randomness == "same"
        again = tuple(self.rewinds(args)) if same else ()
        results = []
        for i in range(self.size):

            def example(tensor, i=i, shown={}):  # noqa: B006, of this example
                if not self.owns(tensor):
                    return tensor
                if id(tensor) not in shown:  # an argument given twice is one again
                    stand = tensor._stand
                    shown[id(tensor)] = stand.value.select(stand.dim, i)
                return shown[id(tensor)]

            for rewind in again:
                rewind()
            results.append(op.redispatch(None, *each(example, args)))
        if op.form == INPLACE:
            return args[0]
        return self.stacked(op, results)

    def rewinds(self, args):
        """What brings the generators of the host and the operands' device back to now."""
        state = get_rng_state()
        yield functools.partial(set_rng_state, state)
        devices = {tensor.device for tensor in tensors(args)}
        for device in devices:
            if not device.on_host and device.has_memory:
                generator = backend_for(device).generator(device)
                yield functools.partial(generator.restore, generator.state())

    def stacked(self, op, results):
        first = results[0]
        if isinstance(first, Tensor):
            return self.wrap(call.stack(results))
        if isinstance(first, (bool, int, float, complex)):
            raise RuntimeError(
                f"Batching rule not implemented for aten::{op.name}. We could not "
                "generate a fallback."
            )
        if isinstance(first, (tuple, list)):
            parts = [self.stacked(op, list(items)) for items in zip(*results)]
            if hasattr(first, "_fields"):
                return type(first)(*parts)
            return type(first)(parts)
        return first


def batched_grad(grad, outputs, inputs, starts, keep, record, allow_unused, zeros):
    """``grad`` for as many starting gradients as their first dimension counts."""
    sizes = {start.shape[0] for start in starts if start is not None and start.dim()}
    if len(sizes) != 1:
        raise RuntimeError(
            "grad: is_grads_batched=True needs grad_outputs of one size in their first "
            f"dimension, but got {sorted(sizes) or 'none with a dimension'}"
        )
    with BatchLevel(sizes.pop()) as level:
        given = [None if start is None else level.wrap(start) for start in starts]
        found = grad(
            outputs,
            inputs,
            given,
            retain_graph=keep,
            create_graph=record,
            allow_unused=allow_unused,
            materialize_grads=zeros,
        )
    with Outside(level):
        return tuple(None if g is None else level.filled(g) for g in found)
