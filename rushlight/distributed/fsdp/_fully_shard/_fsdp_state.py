"""What a spread module does before and after its passes."""

import rushlight as rl
from rushlight.autograd import Variable
from rushlight.utils import _pytree as pytree

__all__ = ["FSDPState"]


class _Passes:
    """What all spread modules under one root share: the order of the last forward."""

    def __init__(self, states):
        self.states = states
        self.order, self.reducing, self.is_queued = [], None, False
        self.is_last_backward = True


class FSDPState:
    """A module whose parameters are gathered while it runs.

    Args:
        modules: the module, or those that share a group.
        group: its parameters, a ``ParameterGroup``.
        policy: types of inputs and outputs.
        auto_reshard: whether the root may keep its parameters between the passes.
    """

    def __init__(self, modules, group, policy, auto_reshard):
        self.modules, self.group, self.policy = modules, group, policy
        self.auto_reshard, self.passes, self.is_root = auto_reshard, None, False
        self.forward_prefetch, self.backward_prefetch = [], None
        self.unshard_in_backward, self.entered = True, 0
        group.on_all_gradients = self._post_backward
        for module in modules:
            module.register_forward_pre_hook(
                self._pre_forward, prepend=True, with_kwargs=True
            )
            module.register_forward_hook(self._post_forward)
            module.register_state_dict_pre_hook(self._before_state)
            module.register_load_state_dict_pre_hook(self._before_state)

    def _before_state(self, module, *rest):
        if self.entered == 0:
            self.group.reshard()

    def lazy_init(self, module):
        """Make the module the root of all under it, where none above it is.

        Args:
            module: the module whose forward begins.
        """
        if self.passes is not None:
            return
        states = []
        for child in module.modules():
            state = getattr(child, "_fsdp_state", None)
            if state is not None and state not in states:
                states.append(state)
        self.is_root, passes = True, _Passes(states)
        for state in states:
            if state.is_root and state is not self:
                state.is_root = False
            state.passes = passes
            state.group.refresh()
            self._check_memory(state)
        if self.auto_reshard:
            self.group.reshard_after_forward = False

    @staticmethod
    def _check_memory(state):
        missing = [
            name
            for each in state.group.parameters
            for _, name in each.owners
            if each.padded.is_meta
        ]
        if missing:
            raise RuntimeError(
                "FSDP parameters should be materialized from meta device before "
                f"training, but the following were still on meta device: {missing}\n"
                "For example, call module.to_empty(device) to materialize to device and "
                "call module.reset_parameters() on each module to initialize values."
            )

    # -- forward ----------------------------------------------------------------------

    def _pre_forward(self, module, args, kwargs):
        if self.group.in_backward:  # a checkpoint that runs the module again
            self.group.unshard()
            return self._cast(args, kwargs)
        self.lazy_init(module)
        if self.is_root and self.entered == 0:
            self.passes.order = []
        self.entered += 1
        self.group.unshard()
        self.group.wait_unshard()
        for state in self.forward_prefetch:
            state.group.unshard(async_op=True)
        return self._cast(args, kwargs)

    def _cast(self, args, kwargs):
        dtype = self.policy.param_dtype
        if dtype is None or not self.policy.cast_forward_inputs:
            return args, kwargs

        def cast(value):
            is_real = isinstance(value, rl.Tensor) and value.is_floating_point()
            return value.to(dtype) if is_real else value

        return pytree.tree_map(cast, args), pytree.tree_map(cast, kwargs)

    def _post_forward(self, module, args, output):
        if self.group.in_backward:
            return output
        self.entered -= 1
        if self.entered == 0:
            if self.group.reshard_after_forward:
                self.group.reshard()
            if self not in self.passes.order:
                self.passes.order.append(self)
        output = self._hook_outputs(output)
        dtype = self.policy.output_dtype
        if dtype is None:
            return output
        return pytree.tree_map(
            lambda each: (
                each.to(dtype)
                if isinstance(each, rl.Tensor) and each.is_floating_point()
                else each
            ),
            output,
        )

    def _hook_outputs(self, output):
        if not rl.is_grad_enabled():
            return output
        for each in pytree.tree_leaves(output):
            if isinstance(each, rl.Tensor) and each.requires_grad:
                each.register_hook(self._pre_backward)
        return output

    # -- backward ---------------------------------------------------------------------

    def _pre_backward(self, grad):
        if not self.passes.is_queued:
            self.passes.is_queued = True
            Variable._execution_engine.queue_callback(self._end_backward)
        if self.group.in_backward:
            return grad
        self.group.in_backward, self.group.arrived = True, 0
        if self.unshard_in_backward:
            self.group.unshard()
            self.group.wait_unshard()
        self._prefetch()
        return grad

    def _prefetch(self):
        """Begin to gather what the backward needs next."""
        order = self.passes.order
        if self.backward_prefetch is not None:
            following = self.backward_prefetch
        else:
            at = order.index(self) if self in order else 0
            following = order[at - 1 : at] if at else []
        for state in following:
            if not state.group.in_backward and state.unshard_in_backward:
                state.group.unshard(async_op=True)

    def _post_backward(self, group):
        """Reduce the gradients; one group's are on their way at a time."""
        self._finish_reducing()
        started = group.start_reduce()
        if started is not None:
            self.passes.reducing = group, started
        if group.reshard_after_backward:
            group.reshard()
        group.arrived = -1

    def _finish_reducing(self):
        if self.passes.reducing is not None:
            group, started = self.passes.reducing
            self.passes.reducing = None
            group.finish_reduce(started)

    def _end_backward(self):
        self.passes.is_queued = False
        for state in self.passes.states:
            if state.group.in_backward and state.group.arrived >= 0:
                state._post_backward(state.group)
            elif state.group.pending is not None and not state.group.in_backward:
                state.group.reshard()  # was gathered for nothing
            state.group.in_backward = False
        self._finish_reducing()
