"""``fully_shard``: parameters, gradients and states of optimizers cut over processes."""

import functools

from rushlight import nn
from rushlight.distributed.device_mesh import init_device_mesh
from rushlight.distributed.fsdp._fully_shard._fsdp_api import MixedPrecisionPolicy
from rushlight.distributed.fsdp._fully_shard._fsdp_group import ParameterGroup
from rushlight.distributed.fsdp._fully_shard._fsdp_param import FSDPParam, ShardMesh
from rushlight.distributed.fsdp._fully_shard._fsdp_state import FSDPState
from rushlight.distributed.tensor import Shard
from rushlight.distributed.world import get_world_size

__all__ = [
    "FSDPModule",
    "UnshardHandle",
    "fully_shard",
    "register_fsdp_forward_method",
    "share_comm_ctx",
]
_classes: dict = {}  # class of a module -> the same as a spread module's


class UnshardHandle:
    """Parameters that are being gathered.

    Args:
        groups: what is waited for.
    """

    def __init__(self, groups=()):
        self._groups = groups

    def wait(self):
        """Wait until they are there."""
        for group in self._groups:
            group.wait_unshard()
        self._groups = ()


class FSDPModule:
    """A module whose parameters are cut over processes: ``fully_shard`` makes one."""

    def __new__(cls, *args, **kwargs):
        """A plain module of the class that was spread: classes of parts are made so."""
        plain = cls.__mro__[2]
        made = plain.__new__(plain, *args, **kwargs)
        made.__init__(*args, **kwargs)
        return made

    def _states(self, recurse=True):
        found = []
        for module in self.modules() if recurse else [self]:
            state = getattr(module, "_fsdp_state", None)
            if state is not None and state not in found:
                found.append(state)
        return found

    def _set(self, recurse, **values):
        for state in self._states(recurse):
            for name, value in values.items():
                setattr(state.group, name, value)

    def reshard(self):
        """Free the whole parameters, and use the parts."""
        self._fsdp_state.group.reshard()

    def unshard(self, async_op=False):
        """Gather the parameters.

        Args:
            async_op: whether to return while they are on their way.

        Returns:
            An ``UnshardHandle`` if ``async_op``; else None.
        """
        self._fsdp_state.lazy_init(self)
        group = self._fsdp_state.group
        group.unshard(async_op=async_op)
        return UnshardHandle([group]) if async_op else None

    def set_is_last_backward(self, is_last_backward):
        """Say whether the next backward is the last of a batch: without effect here.

        Args:
            is_last_backward: whether it is.
        """
        self._fsdp_state.is_last_backward = is_last_backward

    def set_requires_gradient_sync(self, requires_gradient_sync, *, recurse=True):
        """Whether gradients are reduced: without, they gather on each process.

        Args:
            requires_gradient_sync: whether they are.
            recurse: whether submodules follow.
        """
        self._set(recurse, reduces=requires_gradient_sync)

    def set_requires_all_reduce(self, requires_all_reduce, *, recurse=True):
        """Whether copies of parts share their gradients.

        Args:
            requires_all_reduce: whether they do.
            recurse: whether submodules follow.
        """
        self._set(recurse, all_reduces=requires_all_reduce)

    def set_reshard_after_forward(self, reshard_after_forward, recurse=True):
        """Whether wholes are freed between forward and backward.

        Args:
            reshard_after_forward: whether they are.
            recurse: whether submodules follow.

        Raises:
            ValueError: it is not a truth value.
        """
        if not isinstance(reshard_after_forward, bool):
            raise ValueError(
                "reshard_after_forward should be a bool, got "
                f"{type(reshard_after_forward)}"
            )
        for state in self._states(recurse):
            state.auto_reshard = False
            state.group.reshard_after_forward = reshard_after_forward

    def set_reshard_after_backward(self, reshard_after_backward, *, recurse=True):
        """Whether wholes are freed after the backward.

        Args:
            reshard_after_backward: whether they are.
            recurse: whether submodules follow.
        """
        self._set(recurse, reshard_after_backward=reshard_after_backward)

    def set_modules_to_forward_prefetch(self, modules):
        """The modules whose parameters are gathered while this one runs.

        Args:
            modules: spread modules.
        """
        self._fsdp_state.forward_prefetch = _states_of(modules)

    def set_modules_to_backward_prefetch(self, modules):
        """The modules whose parameters are gathered during this one's backward.

        Args:
            modules: spread modules; the one before in the forward without this call.
        """
        self._fsdp_state.backward_prefetch = _states_of(modules)

    def set_gradient_divide_factor(self, factor):
        """What sums of gradients are divided by.

        Args:
            factor: a number; the number of processes without this call.
        """
        self._fsdp_state.group.divide_factor = factor

    set_reduce_scatter_divide_factor = set_gradient_divide_factor

    def set_unshard_in_backward(self, unshard_in_backward):
        """Whether the backward needs the parameters.

        Args:
            unshard_in_backward: whether it does.
        """
        self._fsdp_state.unshard_in_backward = unshard_in_backward

    def set_force_sum_reduction_for_comms(self, enable):
        """Sum and divide: that is how gradients are reduced here in any case.

        Args:
            enable: without effect.
        """

    def set_post_optim_event(self, event):
        """Wait for an event of a device: the host has none.

        Args:
            event: the event.
        """
        event.wait()

    def reset_iter_state(self):
        """Forget a pass that has failed in the midst."""
        for state in self._states():
            state.entered = 0
            state.group.in_backward = False
            state.group.reshard()
            if state.passes is not None:
                state.passes.is_queued, state.passes.reducing = False, None

    def _apply(self, fn, recurse=True):
        self.reshard()
        made = super()._apply(fn, recurse)
        for state in self._states():
            state.group.refresh()
        return made


def _states_of(modules):
    for module in modules:
        if not isinstance(module, FSDPModule):
            raise ValueError(f"Expects FSDPModule but got {type(module)}: {module}")
    return [module._fsdp_state for module in modules]


def _managed(modules, ignored):
    """The parameters under modules that no spread module under them has."""
    found, seen = {}, set()

    def visit(module):
        if module in seen or isinstance(module, FSDPModule):
            return
        seen.add(module)
        for name, parameter in module._parameters.items():
            if parameter is not None and parameter not in ignored:
                found.setdefault(id(parameter), (parameter, []))[1].append(
                    (module, name)
                )
        for child in module.children():
            visit(child)

    for module in modules:
        visit(module)
    return list(found.values())


def _check(modules):
    for module in modules:
        if isinstance(module, (nn.ModuleList, nn.ModuleDict)):
            raise ValueError(
                f"fully_shard does not support containers that do not implement "
                f"forward: {module}"
            )
        if isinstance(module, FSDPModule):
            raise ValueError(f"fully_shard has been applied to it already: {module}")


def fully_shard(
    module,
    *,
    mesh=None,
    reshard_after_forward=None,
    shard_placement_fn=None,
    mp_policy=None,
    offload_policy=None,
    ignored_params=None,
    dp_mesh_dims=None,
):
    """Cut a module's parameters over processes, with their gradients and states.

    Before the module runs its parameters are gathered, and freed after it; in the
    backward they are gathered again, and each process gets its part of the gradients.
    Call it on submodules first, then on the whole: each call makes one group.

    Args:
        module: the module, changed in place; or several that share one group.
        mesh: the processes that cut, or in two dimensions: copies, then cuts; all
            processes without it.
        reshard_after_forward: whether wholes are freed between the passes; without it
            for all but the outermost.
        shard_placement_fn: called with each parameter; along which dimension it is cut:
            a ``Shard``, the first where it gives None.
        mp_policy: the types in which to compute and reduce.
        offload_policy: without effect on the host, where parameters are.
        ignored_params: parameters that stay as they are.
        dp_mesh_dims: the names of the dimensions of ``mesh`` that cut and that copy.

    Returns:
        The module, whose class is now one of ``FSDPModule``.

    Raises:
        ValueError: the module has no forward, or has been spread already.
    """
    modules = module if isinstance(module, list) else [module]
    _check(modules)
    if mesh is None:
        mesh = init_device_mesh("cpu", (get_world_size(),))
    if dp_mesh_dims is not None:
        mesh = mesh[_dims_of(dp_mesh_dims)]
    shard_mesh, policy = ShardMesh(mesh), mp_policy or MixedPrecisionPolicy()
    parameters = []
    for parameter, owners in _managed(modules, ignored_params or set()):
        cut = shard_placement_fn(parameter) if shard_placement_fn else None
        parameters.append(
            FSDPParam(parameter, owners, shard_mesh, cut or Shard(0), policy)
        )
    frees = reshard_after_forward is None or bool(reshard_after_forward)
    group = ParameterGroup(parameters, shard_mesh, policy, frees)
    for each in parameters:
        each.to_sharded()
    state = FSDPState(modules, group, policy, reshard_after_forward is None)
    for each in modules:
        each._fsdp_state = state
        each.__class__ = _spread_class(type(each))
    return module


def _dims_of(dims):
    copies, cuts = (
        (each,) if isinstance(each, str) else tuple(each or ())
        for each in (dims.replicate, dims.shard)
    )
    return (*copies, *cuts)


def _spread_class(plain):
    if plain not in _classes:
        _classes[plain] = type(f"FSDP{plain.__name__}", (FSDPModule, plain), {})
    return _classes[plain]


def register_fsdp_forward_method(module, method_name):
    """Gather the parameters of a spread module for another method, too.

    Args:
        module: the module; one that is not spread stays as it is.
        method_name: the method's name.

    Raises:
        ValueError: a spread module has no such method.
    """
    if not isinstance(module, FSDPModule):
        return
    if not hasattr(module, method_name):
        raise ValueError(f"{type(module)} does not have a method {method_name}")
    method = getattr(module, method_name)

    @functools.wraps(method)
    def wrapped(*args, **kwargs):
        state = module._fsdp_state
        args, kwargs = state._pre_forward(module, args, kwargs)
        return state._post_forward(module, args, method(*args, **kwargs))

    setattr(module, method_name, wrapped)


def share_comm_ctx(modules):
    """Have spread modules share the order in which they are gathered.

    Args:
        modules: spread modules.

    Raises:
        ValueError: one is not spread.
    """
    for module in modules:
        if not isinstance(module, FSDPModule):
            raise ValueError(f"Expects list of FSDPModules but got {type(module)}")
    states = [module._fsdp_state for module in modules]
    for state, module in zip(states, modules):
        state.lazy_init(module)
    for state in states[1:]:
        state.passes = states[0].passes
