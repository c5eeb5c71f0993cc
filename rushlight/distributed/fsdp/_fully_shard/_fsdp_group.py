"""The parameters of one module that are gathered together, and their gradients."""

import rushlight as rl
from rushlight.distributed import collective_functions as collectives

LARGE_BYTES = 1 << 16  # from here on elements go to their place without a copy


class ParameterGroup:
    """Parameters that are gathered before a module runs, and cut again after it.

    Args:
        parameters: each an ``FSDPParam``.
        shard_mesh: the processes.
        policy: types of gathering and reducing.
        reshard_after_forward: whether the wholes are freed between the passes.
    """

    def __init__(self, parameters, shard_mesh, policy, reshard_after_forward):
        self.parameters, self.shard_mesh, self.policy = parameters, shard_mesh, policy
        self.reshard_after_forward = reshard_after_forward
        self.reshard_after_backward, self.reduces = True, True
        self.all_reduces, self.divide_factor = True, None
        self.is_unsharded, self.pending = False, None
        self.in_backward, self.arrived, self.hooked = False, 0, False

    @property
    def wanted(self):
        """How many parameters have gradients."""
        return sum(each.sharded.requires_grad for each in self.parameters)

    @property
    def has_frozen(self):
        """Whether some have none."""
        return self.wanted < len(self.parameters)

    # -- gathering --------------------------------------------------------------------

    def unshard(self, async_op=False):
        """Gather the parameters; they are there after ``wait_unshard``.

        Args:
            async_op: whether to return while they are on their way.
        """
        if self.is_unsharded or self.pending is not None or not self.parameters:
            return
        small, work = [], []
        with rl.no_grad():
            for each in self.parameters:
                buffer, own = each.allocate(), each.gather_input()
                if each.dim == 0 and buffer.nbytes >= LARGE_BYTES:
                    work.append((self._gather(buffer, own, async_op), None, own))
                else:
                    small.append((each, own))
            if small:
                work.append(self._gather_small(small, async_op))
        self.pending = work
        if not async_op:
            self.wait_unshard()

    def _gather(self, whole, own, async_op):
        return collectives.all_gather_into_tensor(
            whole, own, self.shard_mesh.shard_group, async_op
        )

    def _gather_small(self, small, async_op):
        """Several parameters in one collective for each of their types."""
        works, targets = [], []
        for dtype in dict.fromkeys(own.dtype for _, own in small):
            chosen = [(each, own) for each, own in small if own.dtype is dtype]
            flat = rl.cat([own for _, own in chosen])
            whole = flat.new_empty((self.shard_mesh.size, flat.numel()))
            works.append(self._gather(whole, flat, async_op))
            at = 0
            for each, own in chosen:
                targets.append((each, whole[:, at : at + own.numel()]))
                at += own.numel()
        return works, targets, small

    def wait_unshard(self):
        """Wait until the parameters are there, and have the modules use them."""
        if self.pending is None:
            return
        for works, targets, _ in self.pending:
            for work in works if isinstance(works, list) else [works]:
                if work is not None:
                    work.wait()
            for each, rows in targets or ():
                with rl.no_grad():
                    each.gather_output(rows)
        self.pending, self.is_unsharded = None, True
        for each in self.parameters:
            each.to_unsharded()
        if not self.hooked:
            self._hook()

    def _hook(self):
        self.hooked = True
        for each in self.parameters:
            if each.unsharded.requires_grad:
                each.unsharded.register_post_accumulate_grad_hook(self._on_gradient)

    def reshard(self):
        """Have the modules use the parts, and free the wholes."""
        self.wait_unshard()
        if not self.is_unsharded:
            return
        self.is_unsharded = False
        for each in self.parameters:
            each.to_sharded()
            each.free()

    def write_back(self):
        """Take what the wholes are now into the parts."""
        with rl.no_grad():
            for each in self.parameters:
                each.write_back()

    def refresh(self):
        """Take parts that the module has been given in place of these."""
        before = [each.unsharded for each in self.parameters]
        for each in self.parameters:
            each.refresh()
        if any(a is not b.unsharded for a, b in zip(before, self.parameters)):
            self.hooked = False

    # -- gradients --------------------------------------------------------------------

    def _on_gradient(self, parameter):
        self.arrived += 1
        if self.arrived == self.wanted and not self.has_frozen:
            self.on_all_gradients(self)

    def on_all_gradients(self, group):
        """Called when every gradient is there; the state of the root replaces it."""

    def start_reduce(self):
        """Begin to reduce the gradients; what ``finish_reduce`` needs, or None."""
        if not self.reduces:
            return None
        found = [(each, each.gradient()) for each in self.parameters]
        found = [(each, grad) for each, grad in found if grad is not None]
        if not found:
            return None
        started = []
        with rl.no_grad():
            for dtype in dict.fromkeys(grad.dtype for _, grad in found):
                chosen = [(e, g) for e, g in found if g.dtype is dtype]
                started += self._start_type(chosen)
        return started

    def _start_type(self, found):
        """Large gradients each for themselves, the others together."""
        large = [pair for pair in found if pair[1].nbytes >= LARGE_BYTES]
        small = [pair for pair in found if pair[1].nbytes < LARGE_BYTES]
        lists = [[pair] for pair in large] + ([small] if small else [])
        started = []
        for chosen in lists:
            rows = [each.reduce_input(grad) for each, grad in chosen]
            whole = rows[0] if len(rows) == 1 else rl.cat(rows, 1)
            if whole.dtype is rl.float16:  # sums would be too large
                whole = whole / self._factor()
            out = whole.new_empty(whole.shape[1])
            work = collectives.reduce_scatter_tensor(
                out, whole.reshape(-1), group=self.shard_mesh.shard_group, async_op=True
            )
            started.append((work, out, [e for e, _ in chosen], rows, whole))
        return started

    def _factor(self):
        return self.divide_factor or self.shard_mesh.total

    def finish_reduce(self, started):
        """Wait for the gradients and give them to the parts.

        Args:
            started: what ``start_reduce`` gave.
        """
        for work, out, chosen, rows, _ in started or ():
            work.wait()
            if self.shard_mesh.copies is not None and self.all_reduces:
                collectives.all_reduce(out, group=self.shard_mesh.copies)
            if out.dtype is not rl.float16:
                out.div_(self._factor())
            with rl.no_grad():
                for each, flat in zip(
                    chosen, out.split([row.shape[1] for row in rows])
                ):
                    each.accumulate(flat.clone() if len(chosen) > 1 else flat)
