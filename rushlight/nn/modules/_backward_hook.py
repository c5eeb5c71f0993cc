"""Full backward hooks: a pass-through node on each side of a module's forward."""

import warnings

from rushlight.autograd import Function
from rushlight.core.state import is_grad_enabled
from rushlight.core.tensor import Tensor


class BackwardHookFunction(Function):
    """Passes tensors through unchanged, so that one node sees all their gradients."""

    @staticmethod
    def forward(ctx, *args):
        ctx.mark_non_differentiable(*[a for a in args if not a.requires_grad])
        return args

    @staticmethod
    def backward(ctx, *grads):
        return grads


def _scatter(indices, values, size):
    """A tuple of ``size`` with ``values`` at ``indices`` and None elsewhere."""
    placed = [None] * size
    for index, value in zip(indices, values):
        placed[index] = value
    return tuple(placed)


class BackwardHook:
    """Calls a module's hooks once its input and output gradients are both known."""

    def __init__(self, module, user_hooks, user_pre_hooks):
        self.module = module
        self.hooks = user_hooks
        self.pre_hooks = user_pre_hooks
        self.grad_outputs = None
        self.n_inputs = self.n_outputs = -1
        self.input_indices = self.output_indices = None

    def setup_input_hook(self, args):
        """The arguments behind a node that reports their gradients."""
        self.n_inputs = len(args)
        result, self.input_indices = self._pass_through(args, self._on_inputs)
        return result

    def setup_output_hook(self, args):
        """The outputs behind a node that reports their gradients."""
        outputs = args if isinstance(args, tuple) else (args,)
        self.n_outputs = len(outputs)
        outputs, self.output_indices = self._pass_through(outputs, self._on_outputs)
        return outputs if isinstance(args, tuple) else outputs[0]

    def _pass_through(self, args, watch):
        indices = [i for i, each in enumerate(args) if isinstance(each, Tensor)]
        tensors = [args[i] for i in indices]
        if not is_grad_recorded(tensors):
            return args, None
        passed = BackwardHookFunction.apply(*tensors)
        if isinstance(passed, Tensor):
            passed = (passed,)
        watch(next(each.grad_fn for each in passed if each.grad_fn is not None))
        mixed = list(args)
        for index, tensor in zip(indices, passed):
            mixed[index] = tensor
        # Named tuples are built from separate arguments.
        rebuilt = tuple(mixed) if type(args) is tuple else type(args)(*mixed)
        return rebuilt, indices

    def _on_inputs(self, node):
        def hook(grad_input, _):
            # Gradient may reach the input without passing through the output,
            # as in a second backward.
            if self.grad_outputs is None:
                return None
            grads = _scatter(self.input_indices, grad_input, self.n_inputs)
            for user_hook in self.hooks:
                changed = user_hook(self.module, grads, self.grad_outputs)
                if changed is None:
                    continue
                if len(changed) != len(grads):
                    raise RuntimeError(
                        "Backward hook returned an invalid number of grad_input, "
                        f"got {len(changed)}, but expected {len(grads)}"
                    )
                grads = changed
            self.grad_outputs = None
            return tuple(grads[index] for index in self.input_indices)

        node.register_hook(hook)

    def _on_outputs(self, node):
        def hook(_, grad_output):
            grads = _scatter(self.output_indices, grad_output, self.n_outputs)
            grads = self.grad_outputs = self._run_pre_hooks(grads)
            if self.input_indices is None:
                self._run_without_inputs(grads)
            return tuple(grads[index] for index in self.output_indices)

        node.register_hook(hook)

    def _run_pre_hooks(self, grads):
        expected = len(grads)
        for pre_hook in self.pre_hooks:
            changed = pre_hook(self.module, grads)
            if changed is None:
                continue
            if len(changed) != expected:
                raise RuntimeError(
                    "Backward pre hook returned an invalid number of grad_output, "
                    f"got {len(changed)}, but expected {expected}"
                )
            grads = changed
        return grads

    def _run_without_inputs(self, grads):
        """No input wants a gradient: the hooks run once the outputs' are known."""
        warnings.warn(
            "Full backward hook is firing when gradients are computed with respect to "
            "module outputs since no inputs require gradients.",
            stacklevel=5,
        )
        nothing = (None,) * self.n_inputs
        for user_hook in self.hooks:
            changed = user_hook(self.module, nothing, grads)
            if changed is not None and not (
                isinstance(changed, tuple) and all(g is None for g in changed)
            ):
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient "
                    "should always return None or None for all gradients."
                )
        self.grad_outputs = None


def is_grad_recorded(tensors):
    """Whether autograd records an operation on these tensors now."""
    return is_grad_enabled() and any(each.requires_grad for each in tensors)
