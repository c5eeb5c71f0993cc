"""``autograd.Function``: an operator whose gradient the user writes."""

import functools
import warnings

from rushlight.autograd import methods
from rushlight.autograd.node import PythonNode
from rushlight.core import state
from rushlight.core.facts import bump_version
from rushlight.core.tensor import Tensor
from rushlight.core.warning import warn
from rushlight.dispatch.guard import GradMode

__all__ = [
    "BackwardCFunction",
    "Function",
    "FunctionCtx",
    "FunctionMeta",
    "InplaceFunction",
    "once_differentiable",
]


class FunctionCtx:
    """What ``forward`` tells ``backward``: the ``ctx`` argument of both."""

    def save_for_backward(self, *tensors):
        """Keep tensors for ``backward``, where ``ctx.saved_tensors`` gives them back.

        Only inputs and outputs of the function, and None, should be kept this way; a
        change in place before ``backward`` is then an error, not a wrong gradient.
        """
        self.to_save = tensors

    def save_for_forward(self, *tensors):
        """Keep tensors for ``jvp``."""
        for tensor in tensors:
            if not isinstance(tensor, Tensor) and tensor is not None:
                raise AssertionError(
                    "save_for_forward expects all arguments to be tensors; you should "
                    "save non-tensors as attributes on ctx."
                )
        self.saved_for_forward = tensors

    def mark_dirty(self, *args):
        """Name the inputs that ``forward`` changed in place; they must be returned."""
        self.dirty_tensors = args

    def mark_non_differentiable(self, *args):
        """Name the outputs that have no gradient."""
        self.non_differentiable = args

    def mark_shared_storage(self, *pairs):
        """Nothing: tensors that share a storage are known to."""
        warn(
            "`mark_shared_storage` is deprecated. Tensors with shared storages are "
            "automatically tracked. Note that calls to `set_()` are not tracked",
            FutureWarning,
        )

    def set_materialize_grads(self, value):
        """Whether ``backward`` gets zeros (the default) or None for what is missing."""
        self.materialize_grads = value


class BackwardCFunction(PythonNode, FunctionCtx):
    """The node of one call of a Function, and its ``ctx``."""

    to_save = None
    dirty_tensors = ()
    non_differentiable = ()
    materialize_grads = True
    needs_input_grad = ()
    saved_for_forward = None
    pushing = False  # whether ``jvp`` is being called
    _forward_cls = None

    def name(self):
        return type(self).__name__

    def __repr__(self):
        kind = type(self)
        return f"<{kind.__module__}.{kind.__qualname__} object at {id(self):#x}>"

    @property
    def requires_grad(self):
        return True

    @property
    def saved_tensors(self):
        """The tensors given to ``save_for_backward``; in ``jvp``, ``save_for_forward``."""
        if self.pushing:
            return tuple(self.saved_for_forward or ())
        return methods.saved_values(self)

    @property
    def saved_variables(self):
        """The older name of ``saved_tensors``."""
        warn("'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning)
        return self.saved_tensors

    @property
    def _raw_saved_tensors(self):
        return methods.raw_saved_values(self)

    def apply(self, *grads):
        """Call ``backward`` (or ``vjp``) of the Function that made this node."""
        function = self._forward_cls
        backward = function.backward
        if function.vjp is not Function.vjp:
            if backward is not Function.backward:
                raise RuntimeError(
                    "Implementing both 'backward' and 'vjp' for a custom Function is "
                    "not allowed. You should only implement one of them."
                )
            backward = function.vjp
        return backward(self, *grads)

    def run(self, grads, needs):
        """The gradients for this node's edges, from the user's ``backward``."""
        if self.materialize_grads:
            grads = tuple(
                [
                    methods.zeros_for_output(self, i) if grad is None else grad
                    for i, grad in enumerate(grads)
                ]
            )
        results = self.apply(*grads)
        if not isinstance(results, tuple):
            results = (results,)
        return self._gradients_of_tensors(results)

    def _gradients_of_tensors(self, results):
        """One gradient for each tensor that ``forward`` took; checks all others."""
        flags = self._tensor_flags
        extra = results[len(flags) :]
        if len(results) < len(flags) or any(one is not None for one in extra):
            raise RuntimeError(
                f"function {self.name()} returned an incorrect number of gradients "
                f"(expected {len(flags)}, got {len(results)})"
            )
        kept = []
        for i, (is_tensor, grad) in enumerate(zip(flags, results)):
            if is_tensor:
                kept.append(grad)
            elif grad is not None:
                raise RuntimeError(
                    f"function {self.name()} returned a gradient different than None "
                    f"at position {i + 1}, but the corresponding forward input was not "
                    "a Variable"
                )
        return tuple(kept)


class ForwardContext(FunctionCtx):
    """The ``ctx`` of a ``jvp``."""

    materialize_grads = True
    saved_for_forward = ()
    to_save = ()
    needs_input_grad = ()

    @property
    def saved_tensors(self):
        return tuple(self.saved_for_forward or self.to_save or ())


class FunctionMeta(type):
    """Gives every Function its own node class, ``<name>Backward``."""

    def __init__(cls, name, bases, attrs):
        cls._backward_cls = type(
            name + "Backward",
            (BackwardCFunction,),
            {"_forward_cls": cls, "__module__": __name__},
        )
        super().__init__(name, bases, attrs)


class Function(FunctionCtx, metaclass=FunctionMeta):
    """Base class of operators with a gradient of their own.

    Subclasses define static ``forward`` and ``backward`` and are used through
    ``apply``.

    >>> import rushlight as rl
    >>> class Double(rl.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x * 2
    ...
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         return grad * 2
    >>> x = rl.ones(2, requires_grad=True)
    >>> Double.apply(x).sum().backward()
    >>> x.grad.tolist()
    [2.0, 2.0]
    """

    def __call__(self, *args, **kwargs):
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. "
            "Please use new-style autograd function with static forward method. (Example: "
            "https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function)"
        )

    generate_vmap_rule = False
    forward_context = ForwardContext

    def __init__(self, *_args, **_kwargs):
        warnings.warn(
            f"{type(self)} should not be instantiated. Methods on autograd functions "
            "are all static, so you should invoke them on the class itself. "
            "Instantiating an autograd function will raise an error in a future "
            "version.",
            DeprecationWarning,
            stacklevel=2,
        )

    @staticmethod
    def forward(*args, **kwargs):
        """Compute the outputs: ``forward(ctx, *args)``, or ``forward(*args)`` beside
        ``setup_context``."""
        raise NotImplementedError(
            "You must implement the forward function for custom autograd.Function."
        )

    @staticmethod
    def setup_context(ctx, inputs, output):
        """Keep what ``backward`` needs, where ``forward`` takes no ``ctx``."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx, *grad_outputs):
        """The gradient, or None, of each argument of ``forward``."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom "
            "autograd.Function to use it with backward mode AD."
        )

    vjp = backward

    @staticmethod
    def vmap(info, in_dims, *args):
        """The outputs for a whole batch, and the dimensions that count its examples."""
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap "
            "staticmethod or set generate_vmap_rule=True."
        )

    @staticmethod
    def jvp(ctx, *grad_inputs):
        """The tangents of the outputs, for forward mode."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use "
            "it with forward mode AD."
        )

    @classmethod
    def apply(cls, *args, **kwargs):
        """Run ``forward`` and record it with the class's ``backward``."""
        if cls.setup_context is not Function.setup_context:
            args, kwargs = _bound(cls.forward, args, kwargs), {}
        if state.sees_tangents():
            from rushlight.autograd import dual_function

            return dual_function.apply(cls, args, kwargs)
        return cls.apply_primal(args, kwargs)

    @classmethod
    def apply_primal(cls, args, kwargs):
        """The same without the tangents of a `dual_level`."""
        if state.is_transforming():
            from rushlight.autograd.levels import custom

            return custom.apply(cls, args, kwargs)
        for arg in args:
            if isinstance(arg, Tensor) and arg._stand is not None:
                from rushlight.autograd.levels.stack import each, revived

                args = each(revived, args)  # of a transformation that is over
                break
        return cls.apply_here(*args, **kwargs)

    @classmethod
    def apply_here(cls, *args, **kwargs):
        """The same whatever transformations are open."""
        return cls.apply_node(args, kwargs)

    @classmethod
    def apply_node(cls, args, kwargs, push=None):
        """The same; ``push(node, outputs, results)`` sees them before they are saved."""
        asked = state.silenced_overrides()
        try:
            state.silence_overrides(2)  # what is read here, nobody is asked about
            return cls._recorded(asked, args, kwargs, push)
        finally:
            state.silence_overrides(asked)

    @classmethod
    def _recorded(cls, asked, args, kwargs, push):
        node = cls._backward_cls()
        tensors = [arg for arg in args if isinstance(arg, Tensor)]
        node._tensor_flags = flags = tuple([isinstance(arg, Tensor) for arg in args])
        node.needs_input_grad = tuple(
            [flag and arg.requires_grad for flag, arg in zip(flags, args)]
        )
        recording = True in node.needs_input_grad and state.is_grad_enabled()
        if recording:
            methods.connect(node, tensors)
        outputs = cls._run_forward(asked, node, args, kwargs)
        several = isinstance(outputs, tuple)
        raw = outputs if several else (outputs,)
        results = _Wrapping(node, tensors, raw, recording, asked).wrap()
        if push is not None:
            push(node, raw, results)
        node.dirty_tensors = ()  # which would hold their own node
        if recording:
            _save(node, results)
        return results if several else results[0]

    @classmethod
    def _run_forward(cls, asked, node, args, kwargs):
        before = state.is_grad_enabled(), state.silenced_overrides()
        try:
            state.set_recording_and_silence(False, asked)
            if cls.setup_context is Function.setup_context:
                return cls.forward(node, *args, **kwargs)
            output = cls.forward(*args, **kwargs)
            cls.setup_context(node, args, output)
            return output
        finally:
            state.set_recording_and_silence(*before)


@functools.lru_cache(maxsize=1024)
def _signature(forward):
    import inspect  # much to import for programs without functions of their own

    signature = inspect.signature(forward)
    kinds = {parameter.kind for parameter in signature.parameters.values()}
    fixed = kinds <= {inspect.Parameter.POSITIONAL_OR_KEYWORD}
    return signature, len(signature.parameters) if fixed else None


def _bound(forward, args, kwargs):
    """All arguments by position, with defaults: what ``setup_context`` is given."""
    signature, count = _signature(forward)
    if len(args) == count and not kwargs:
        return args
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.args


class _Wrapping:
    """Turns what ``forward`` returned into outputs of the node."""

    def __init__(self, node, inputs, outputs, recording, asked):
        self.node = node
        self.inputs = inputs
        self.outputs = outputs
        self.recording = recording
        self.asked = asked  # what is silenced outside
        self.dirty = node.dirty_tensors
        self.fixed = node.non_differentiable
        self.several = (
            len(outputs) > 1
            and sum(isinstance(output, Tensor) for output in outputs) > 1
        )

    def wrap(self) -> tuple:
        self.check_dirty()
        if self.recording:
            methods.count_outputs(self.node, self.outputs)
        return tuple(
            [
                self.wrap_one(output, i) if isinstance(output, Tensor) else output
                for i, output in enumerate(self.outputs)
            ]
        )

    def check_dirty(self):
        for tensor in self.dirty:
            if not isinstance(tensor, Tensor):
                raise TypeError(
                    "mark_dirty can only accept variables, but argument is of type "
                    f"{type(tensor).__name__}"
                )
            if not _holds(self.outputs, tensor):
                raise RuntimeError(
                    "Some elements marked as dirty during the forward method were not "
                    "returned as output. The inputs that are modified inplace must all "
                    "be outputs of the Function."
                )
            bump_version(tensor)

    def wrap_one(self, output, index):
        given = _holds(self.inputs, output)
        changed = _holds(self.dirty, output)
        if not self.recording or not _differentiable(output, self.fixed):
            if given and not changed:
                if output.requires_grad:
                    return output.detach()
                return self.shown(output)
            return output
        if changed:
            return self.attach_changed(output, index)
        if given:
            if type(output) is Tensor and not state.function_modes():
                return methods.shown_again(output, self.node, index, self.several)
            output = self.shown(output)
        methods.attach_output(output, self.node, index)
        methods.forbid_rebase(output, self.several)
        return output

    def shown(self, output):
        """A view of an input that is given back, which types and modes may take."""
        with state.OverridesScope(self.asked), GradMode(False):
            return output.view_as(output)

    def attach_changed(self, output, index):
        if output.is_leaf and output.requires_grad:
            raise RuntimeError(
                "a leaf Variable that requires grad has been used in an in-place "
                "operation."
            )
        if output._is_view() and self.several:
            raise RuntimeError(
                "If your Function modifies inplace an input that is a view of another "
                "Tensor, your Function cannot return more than one Tensor. This is not "
                "supported by the current autograd engine. You should either make sure "
                "the input is not a view (using .clone() for example) or make your "
                "Function only return one Tensor (potentially splitting it into two "
                "Functions: one doing the inplace that returns a single Tensor and a "
                "second one that does the other operations)."
            )
        methods.attach_changed(output, self.node, index)
        return output


def _holds(tensors, wanted) -> bool:
    for tensor in tensors:
        if tensor is wanted:
            return True
    return False


def _differentiable(output, fixed) -> bool:
    dtype = output.dtype
    return not _holds(fixed, output) and (dtype.is_floating_point or dtype.is_complex)


def _save(node, results):
    """Keep what ``save_for_backward`` named, in the node and out of ``ctx``."""
    values = node.to_save
    if values is None:
        return
    for i, value in enumerate(values):
        if value is not None and not isinstance(value, Tensor):
            raise TypeError(
                "save_for_backward can only save variables, but argument "
                f"{i} is of type {type(value).__name__}"
            )
    methods.save_values(node, values, results)
    node.to_save = None


class InplaceFunction(Function):
    """A Function that may work in place, told so when it is made."""

    def __init__(self, inplace=False):
        super().__init__()
        self.inplace = inplace


class _DelayedError(PythonNode):
    """Raises when a gradient arrives."""

    def name(self):
        return "DelayedErrorBackward"

    def run(self, grads, needs):
        raise RuntimeError(
            "trying to differentiate twice a function that was marked with "
            "@once_differentiable"
        )


def once_differentiable(fn):
    """Decorator of a ``backward`` that may not itself be differentiated."""

    @functools.wraps(fn)
    def wrapped(ctx, *grads):
        earlier = state.is_grad_enabled()
        with GradMode(False):
            outputs = fn(ctx, *grads)
        wanted = [
            grad for grad in grads if isinstance(grad, Tensor) and grad.requires_grad
        ]
        if not earlier or not wanted:
            return outputs
        return _refuse_second(outputs, wanted)

    return wrapped


def _refuse_second(outputs, inputs):
    """The outputs, made to raise if somebody differentiates them."""
    node = _DelayedError()
    methods.connect(node, inputs)
    several = isinstance(outputs, tuple)
    shown = []
    for index, output in enumerate(outputs if several else (outputs,)):
        if isinstance(output, Tensor):
            output = output.detach()
            methods.attach_output(output, node, index)
        shown.append(output)
    return tuple(shown) if several else shown[0]
