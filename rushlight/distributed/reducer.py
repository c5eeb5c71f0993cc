"""Gradients in buckets, reduced over the ranks while the backward goes on."""

import time

import rushlight as rl
from rushlight.autograd.variable import Variable
from rushlight.distributed import nan_check
from rushlight.distributed.process_group import ProcessGroup
from rushlight.distributed.reductions import ReduceOp
from rushlight.futures import Future

FIRST_BUCKET_BYTES = 1 << 20


class GradBucket:
    """What a communication hook is given: the gradients of one bucket.

    Args:
        bucket: the bucket.
        is_last: whether it is the last of the backward.
    """

    __module__ = "rushlight.distributed"

    def __init__(self, bucket, is_last):
        self._bucket, self._is_last = bucket, is_last
        self._buffer = bucket.flat

    def index(self):
        """Its number; buckets come in their order."""
        return self._bucket.index

    def buffer(self):
        """All gradients, flat and behind one another."""
        return self._buffer

    def set_buffer(self, buffer):
        """Put another tensor in the buffer's place."""
        self._buffer = buffer

    def gradients(self):
        """The gradient of each parameter, as a view of the buffer."""
        return self._bucket.views_of(self._buffer)

    def parameters(self):
        """The parameters."""
        return list(self._bucket.parameters)

    def is_last(self):
        """Whether it is the last of the backward."""
        return self._is_last


class Bucket:
    """Parameters whose gradients are reduced in one collective.

    Args:
        index: its number.
        parameters: the parameters, of one type on one device.
    """

    def __init__(self, index, parameters):
        self.index, self.parameters = index, parameters
        first = parameters[0]
        count = sum(each.numel() for each in parameters)
        self.shared = None  # the same memory, where all ranks see each other's
        self.was_shared = False  # whether that was tried
        self._set_flat(rl.zeros(count, dtype=first.dtype, device=first.device))
        self.index_of = {id(each): i for i, each in enumerate(parameters)}
        self.reset()

    def _set_flat(self, flat):
        self.flat, self.views = flat, self.views_of(flat)

    def share(self, group):
        """Put the gradients into memory that all ranks see, where there is such.

        Args:
            group: the ranks.
        """
        flat, self.was_shared = self.flat, True
        if flat.device.type != "cpu" or not isinstance(group, ProcessGroup):
            return
        self.shared = group._symmetric_array(flat.numel(), flat.dtype)
        if self.shared is None:
            return
        self._set_flat(self.shared.own)
        self.results, start = [], 0
        for each in self.parameters:
            found = self.shared.results(start, start + each.numel())
            whole = len(found) == 1
            self.results.append(found[0][1].view(each.shape) if whole else found)
            start += each.numel()

    def reset(self):
        """Start on a backward."""
        self.missing = len(self.parameters)
        self.work, self.buffer = None, None
        self.times = [0.0, 0.0]

    def views_of(self, flat):
        """A tensor of the bucket's length as the parameters' gradients."""
        views, start = [], 0
        for each in self.parameters:
            views.append(flat[start : start + each.numel()].view(each.shape))
            start += each.numel()
        return views


def assign_buckets(parameters, first_bytes, bytes_of_others):
    """Divide parameters, in the order that their gradients come, into buckets.

    Args:
        parameters: the parameters in that order.
        first_bytes: how large the first bucket may be.
        bytes_of_others: how large the others may be.

    Returns:
        Lists of parameters, in the order that they are complete.
    """
    open_buckets, done, limits = {}, [], {}
    for each in parameters:
        key = each.dtype, each.device
        bucket = open_buckets.setdefault(key, [])
        bucket.append(each)
        size = sum(p.numel() * p.element_size() for p in bucket)
        if size >= limits.get(key, first_bytes):
            done.append(open_buckets.pop(key))
            limits[key] = bytes_of_others
    return done + list(open_buckets.values())


UNFINISHED = (
    "Expected to have finished reduction in the prior iteration before starting a new "
    "one. This error indicates that your module has parameters that were not used in "
    "producing loss. You can enable unused parameter detection by passing the keyword "
    "argument `find_unused_parameters=True` to "
    "`torch.nn.parallel.DistributedDataParallel`, and by \n"
    "making sure all `forward` function outputs participate in calculating loss. \n"
    "If you already have done the above, then the distributed data parallel module "
    "wasn't able to locate the output tensors in the return value of your module's "
    "`forward` function."
)


class Reducer:
    """Reduces gradients over the ranks of a group, bucket by bucket.

    Args:
        named: (name, parameter) of each parameter with a gradient, in the module's order.
        group: the group.
        options: ``bucket_bytes``, ``first_bytes``, ``as_views``, ``finds_unused``,
            ``is_static``.
    """

    def __init__(self, named, group, options):
        self.names = {id(each): name for name, each in named}
        self.parameters = [each for _, each in named]
        self.indices = {id(each): i for i, each in enumerate(self.parameters)}
        self.group, self.options = group, options
        self.divisor = group.size()
        self.refuses_nan = group.size() > 1 and nan_check.is_wanted()
        self.hook = self.hook_state = None
        self.is_on = True  # False in no_sync
        self.is_open = False  # between a forward and the end of its backward
        self.forwards = 0  # that all ranks have had, until buckets are shared
        self.release = None  # what to wait for before buckets are written again
        self.order, self.rebuilt = [], False
        self.counts, self.fired = {}, {}  # of a static graph
        self.used = None
        self.statistics = {"iterations": 0, "bucket_times": [], "rebuilt": False}
        self._set_buckets(list(reversed(self.parameters)))
        self.handles = [
            each.register_post_accumulate_grad_hook(self._on_gradient)
            for each in self.parameters
        ]

    def _set_buckets(self, ordered):
        lists = assign_buckets(
            ordered, self.options["first_bytes"], self.options["bucket_bytes"]
        )
        self.buckets = [Bucket(i, each) for i, each in enumerate(lists)]
        self.bucket_of = {id(p): b for b in self.buckets for p in b.parameters}

    # -- before a backward ------------------------------------------------------------

    def share_buckets(self):
        """Put the buckets into memory that all ranks see, once their order is known.

        All ranks call it as often: before each forward.
        """
        self.forwards += 1
        if self.forwards > 1 and self.hook is None:
            for bucket in self.buckets:
                if not bucket.was_shared:
                    bucket.share(self.group)

    def _await_release(self):
        """Wait until all ranks have read what the last backward has reduced."""
        if self.release is not None:
            self.group._await_release(self.release)
            self.release = None

    def prepare(self, find_used=None):
        """Get ready for a backward, after a forward.

        Args:
            find_used: gives the parameters that the backward will reach; None where
                all are.
        """
        self._check_finished()
        self._await_release()
        for bucket in self.buckets:
            bucket.reset()
        self.is_open, self.started, self.next = True, False, 0
        self.ready, self.fired = set(), {}
        self.used, self.unused = None, []
        if self.counts:  # of a static graph: each iteration uses what the first did
            find_used = lambda: [p for p in self.parameters if id(p) in self.counts]  # noqa: E731
        if find_used is None:
            return
        reached = {id(each) for each in find_used()}
        self.used = [id(each) in reached for each in self.parameters]
        self.unused = [p for p in self.parameters if id(p) not in reached]
        if len(self.unused) == len(self.parameters):
            self._begin_backward(False)

    def _check_finished(self):
        """Raises where the last backward has left gradients out."""
        if not self.is_open or not self.started:
            return
        missing = [p for p in self.parameters if id(p) not in self.ready]
        indices = " ".join(str(self.indices[id(p)]) for p in missing)
        names = ", ".join(self.names[id(p)] for p in missing)
        self.is_open = False
        raise RuntimeError(
            f"{UNFINISHED}\nParameter indices which did not receive grad for rank "
            f"{self.group.rank()}: {indices}\n  parameters: {names}"
        )

    def rebuild(self, broadcast):
        """Order the buckets as gradients came in the first backward, on rank 0.

        Args:
            broadcast: copies rank 0's tensor to all.
        """
        if self.rebuilt or not self.order or self.options["finds_unused"]:
            return
        if len(self.order) != len(self.parameters):
            return
        order = [self.indices[id(p)] for p in self.order]
        order = rl.tensor(order, device=self.group._coordination_device())
        broadcast(order)
        self._set_buckets([self.parameters[i] for i in order.tolist()])
        self.rebuilt = self.statistics["rebuilt"] = True

    # -- in a backward ----------------------------------------------------------------

    def _begin_backward(self, queues=True):
        self.started, self.began = True, time.perf_counter()
        if queues:
            Variable._execution_engine.queue_callback(self._end_backward)
        if self.used is not None:
            for each in self.unused:
                self._mark_ready(each, None)
        if not queues:
            self._end_backward()

    def _on_gradient(self, parameter):
        """A gradient has been accumulated."""
        if not self.is_on or not self.is_open:
            return
        if not self.started:
            self._begin_backward()
        key = id(parameter)
        self.fired[key] = self.fired.get(key, 0) + 1
        if self.options["is_static"]:
            if not self.counts or self.fired[key] < self.counts.get(key, 1):
                return  # the first backward counts; then the last of each counts
        if key in self.ready:
            raise RuntimeError(
                "Expected to mark a variable ready only once. This error is caused by "
                "one of the following reasons: 1) Use of a module parameter outside the "
                "`forward` function. 2) Reused parameters in multiple reentrant "
                f"backward passes.\nParameter at index {self.indices[key]} with name "
                f"{self.names[key]} has been marked as ready twice."
            )
        self._mark_ready(parameter, parameter.grad)

    def _mark_ready(self, parameter, grad):
        key = id(parameter)
        self.ready.add(key)
        if not self.statistics["iterations"]:
            self.order.append(parameter)
        bucket = self.bucket_of[key]
        self._fill(bucket, bucket.views[bucket.index_of[key]], grad)
        bucket.missing -= 1
        while self.next < len(self.buckets) and not self.buckets[self.next].missing:
            self._launch(self.buckets[self.next])
            self.next += 1

    def _fill(self, bucket, view, grad):
        """Copy a gradient into its bucket, divided where no hook divides."""
        with rl.no_grad():
            if grad is None:
                view.zero_()
            elif self.hook is None:
                rl.mul(grad.detach(), 1.0 / self.divisor, out=view)
            elif grad.data_ptr() != view.data_ptr():
                view.copy_(grad)

    def _launch(self, bucket):
        bucket.times[0] = time.perf_counter() - self.began
        if self.refuses_nan:
            names = [self.names[id(each)] for each in bucket.parameters]
            step = self.statistics["iterations"]
            nan_check.refuse_gradients(self.group, step, zip(names, bucket.views))
        if self.hook is None:
            bucket.work = (
                self.group._all_reduce([bucket.flat], ReduceOp.SUM, True)
                if bucket.shared is None
                else self.group._reduce_symmetric(bucket.shared)
            )
            return
        given = GradBucket(bucket, bucket is self.buckets[-1])
        with rl.no_grad():
            found = self.hook(self.hook_state, given)
        if not isinstance(found, Future):
            raise TypeError("a communication hook must give a torch.futures.Future")
        bucket.work = found

    def _end_backward(self):
        """All gradients have been accumulated: wait for the buckets, hand them out."""
        if not self.is_open:
            return
        if self.options["is_static"] and not self.counts:
            self._count_uses()
        if self.next < len(self.buckets):
            return  # some have none: the next forward says so
        globally = self._used_anywhere()
        with rl.no_grad():
            for bucket in self.buckets:
                self._hand_out(bucket, globally)
            self._release_buckets()
        self.is_open = False
        self.statistics["iterations"] += 1
        self.statistics["bucket_times"] = [b.times for b in self.buckets]

    def _count_uses(self):
        """End the first backward of a static graph: all is reduced now."""
        self.counts = dict(self.fired)
        self.used = [id(p) in self.counts for p in self.parameters]
        for each in self.parameters:
            grad = each.grad if id(each) in self.counts else None
            self._mark_ready(each, grad)
        self.order.clear()

    def _used_anywhere(self):
        """Whether each parameter was used on any rank; None where all were."""
        if self.used is None:
            return None
        used = rl.tensor(
            self.used, dtype=rl.int32, device=self.group._coordination_device()
        )
        self.group._all_reduce([used], ReduceOp.MAX)
        return used.tolist()

    def _hand_out(self, bucket, globally):
        found = bucket.work.wait()
        views = bucket.views
        if isinstance(bucket.work, Future):
            found = found[0] if isinstance(found, (list, tuple)) else found
            if found.data_ptr() != bucket.flat.data_ptr():
                bucket.flat.copy_(found.view(-1))
        bucket.times[1] = time.perf_counter() - self.began
        if bucket.shared is not None and self.hook is None:
            return self._hand_out_shared(bucket, globally)
        for parameter, view in zip(bucket.parameters, views):
            if globally is not None and not globally[self.indices[id(parameter)]]:
                continue
            if self.options["as_views"]:
                parameter.grad = view
            elif parameter.grad is None:
                parameter.grad = view.clone()
            else:
                parameter.grad.copy_(view)

        return None

    def _hand_out_shared(self, bucket, globally):
        """Copy results from where the ranks have reduced them to the gradients."""
        into, values = [], []
        for place, parameter in enumerate(bucket.parameters):
            if globally is not None and not globally[self.indices[id(parameter)]]:
                continue
            found, view = bucket.results[place], bucket.views[place]
            if self.options["as_views"]:
                parameter.grad = view
            elif parameter.grad is None:
                parameter.grad = rl.empty_like(view)
            grad = parameter.grad
            if isinstance(found, rl.Tensor):
                into.append(grad)
                values.append(found)
                continue
            whole = grad if grad.is_contiguous() else view
            flat = whole.view(-1)
            for offset, each in found:
                into.append(flat[offset : offset + each.numel()])
                values.append(each)
            if whole is not grad:
                into.append(grad)
                values.append(view)
        for grad, value in zip(into, values):
            if grad.data_ptr() != value.data_ptr():
                grad.copy_(value)

    def _release_buckets(self):
        """Tell all ranks that their memory has been read."""
        if self.hook is None and any(b.shared is not None for b in self.buckets):
            self.release = self.group._release_symmetric()
            if self.options["as_views"]:  # gradients may be changed from now on
                self._await_release()

    # -- ranks that have no more input ------------------------------------------------

    def shadow(self):
        """Take part in one backward of others, with gradients of zero."""
        self._await_release()
        self.began = time.perf_counter()
        for bucket in self.buckets:
            bucket.reset()
            bucket.flat.zero_()
            self._launch(bucket)
        if self.used is not None or self.options["finds_unused"]:
            self.used = [False] * len(self.parameters)
            self._used_anywhere()
        for bucket in self.buckets:
            bucket.work.wait()
        self._release_buckets()
