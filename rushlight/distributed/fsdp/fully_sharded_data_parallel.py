"""``FullyShardedDataParallel``: a module around another one that ``fully_shard`` cuts."""

import contextlib
import warnings
from enum import Enum, auto

import rushlight as rl
from rushlight.distributed import collective_functions as collectives
from rushlight.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_optimizer_state_dict,
)
from rushlight.distributed.device_mesh import DeviceMesh, init_device_mesh
from rushlight.distributed.fsdp._common_utils import FSDP_PREFIX, FSDP_WRAPPED_MODULE
from rushlight.distributed.fsdp._flat_param import FlatParameter as FlatParameter
from rushlight.distributed.fsdp._fully_shard import MixedPrecisionPolicy, fully_shard
from rushlight.distributed.fsdp.api import (
    BackwardPrefetch,
    CPUOffload,
    FullOptimStateDictConfig,
    FullStateDictConfig,
    LocalOptimStateDictConfig,
    LocalStateDictConfig,
    MixedPrecision,
    OptimStateDictConfig,
    ShardedOptimStateDictConfig,
    ShardedStateDictConfig,
    ShardingStrategy,
    StateDictConfig,
    StateDictSettings,
    StateDictType,
)
from rushlight.distributed.fsdp.wrap import chosen_modules
from rushlight.distributed.tensor import DTensor, distribute_tensor
from rushlight.distributed.world import get_rank, get_world_size
from rushlight.nn import Module, ModuleDict, ModuleList

__all__ = [
    "BackwardPrefetch",
    "CPUOffload",
    "FullOptimStateDictConfig",
    "FullStateDictConfig",
    "FullyShardedDataParallel",
    "LocalOptimStateDictConfig",
    "LocalStateDictConfig",
    "MixedPrecision",
    "OptimStateDictConfig",
    "OptimStateKeyType",
    "ShardedOptimStateDictConfig",
    "ShardedStateDictConfig",
    "ShardingStrategy",
    "StateDictConfig",
    "StateDictSettings",
    "StateDictType",
]


class OptimStateKeyType(Enum):
    """Whether states of optimizers go by parameters' names or numbers."""

    PARAM_NAME = auto()
    PARAM_ID = auto()


def _mesh_of(strategy, process_group, device_mesh):
    """The processes that cut parameters, and those that have copies."""
    if device_mesh is not None:
        return device_mesh
    if isinstance(process_group, tuple):
        cuts, copies = process_group
        ranks = rl.arange(get_world_size()).view(-1, cuts.size())
        return DeviceMesh.from_group([copies, cuts], "cpu", ranks)
    if process_group is not None:
        return DeviceMesh.from_group(process_group, "cpu")
    if strategy is ShardingStrategy.NO_SHARD:
        return init_device_mesh("cpu", (get_world_size(), 1))
    return init_device_mesh("cpu", (get_world_size(),))


class FullyShardedDataParallel(Module):
    """A module around another one, whose parameters, gradients and states are cut.

    It is ``fully_shard`` under the class's older name: parameters keep their own names
    and sizes, as with ``use_orig_params``, and are ``DTensor`` between the passes.

    Args:
        module: the module; changed in place.
        process_group: the processes, all without it; for copies of parts a pair: those
            that cut, and those that copy.
        sharding_strategy: what is cut, and when wholes are freed.
        cpu_offload: without effect on the host.
        auto_wrap_policy: which submodules get a group of their own.
        backward_prefetch: the next group is gathered during the backward in any case.
        mixed_precision: the types in which to compute and reduce.
        ignored_modules: modules whose parameters stay as they are.
        param_init_fn: called with each module on ``meta``, to give it values.
        device_id: without effect on the host.
        sync_module_states: whether the first process's values count.
        forward_prefetch: without effect here.
        limit_all_gathers: without effect here.
        use_orig_params: so it is in any case.
        ignored_states: parameters or modules that stay as they are.
        device_mesh: the processes, in one dimension or two.
    """

    def __init__(
        self,
        module,
        process_group=None,
        sharding_strategy=None,
        cpu_offload=None,
        auto_wrap_policy=None,
        backward_prefetch=BackwardPrefetch.BACKWARD_PRE,
        mixed_precision=None,
        ignored_modules=None,
        param_init_fn=None,
        device_id=None,
        sync_module_states=False,
        forward_prefetch=False,
        limit_all_gathers=True,
        use_orig_params=False,
        ignored_states=None,
        device_mesh=None,
    ):
        super().__init__()
        if isinstance(module, (ModuleList, ModuleDict)):
            warnings.warn(
                "FSDP will not all-gather parameters for containers that do not "
                f"implement forward: {module}",
                stacklevel=2,
            )
        strategy = sharding_strategy or ShardingStrategy.FULL_SHARD
        ignored = _ignored(ignored_modules, ignored_states)
        mesh = _mesh_of(strategy, process_group, device_mesh)
        if param_init_fn is not None:
            for each in module.modules():
                if any(p.is_meta for p in each.parameters(recurse=False)):
                    param_init_fn(each)
        if sync_module_states:
            _copy_from_first(module, mesh)
        if auto_wrap_policy is not None:
            options = {
                "sharding_strategy": strategy,
                "mixed_precision": mixed_precision,
                "device_mesh": mesh,
                "ignored_states": list(ignored),
            }
            _wrap_children(module, auto_wrap_policy, type(self), options)
        self.sharding_strategy, self.mixed_precision = strategy, mixed_precision
        self._settings = StateDictSettings(
            StateDictType.FULL_STATE_DICT,
            FullStateDictConfig(),
            FullOptimStateDictConfig(),
        )
        setattr(self, FSDP_WRAPPED_MODULE, self._cut(module, mesh, ignored))
        self.register_state_dict_post_hook(_give_state)
        self.register_load_state_dict_pre_hook(_take_state)

    def _cut(self, module, mesh, ignored):
        mixed = self.mixed_precision or MixedPrecision()
        if mixed.buffer_dtype is not None:
            for name, buffer in module.named_buffers():
                if buffer.is_floating_point():
                    owner, _, key = name.rpartition(".")
                    owner = module.get_submodule(owner)
                    owner._buffers[key] = buffer.to(mixed.buffer_dtype)
        policy = MixedPrecisionPolicy(
            mixed.param_dtype,
            mixed.reduce_dtype,
            cast_forward_inputs=mixed.cast_forward_inputs
            or mixed.cast_root_forward_inputs,
        )
        frees = {
            ShardingStrategy.FULL_SHARD: True,
            ShardingStrategy.HYBRID_SHARD: True,
        }.get(self.sharding_strategy, False)
        return fully_shard(
            module,
            mesh=mesh,
            reshard_after_forward=frees,
            mp_policy=policy,
            ignored_params=ignored,
        )

    @property
    def module(self):
        """The module inside."""
        return getattr(self, FSDP_WRAPPED_MODULE)

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == FSDP_WRAPPED_MODULE:
                raise
            return getattr(self.module, name)

    def __getitem__(self, key):
        return self.module[key]

    def forward(self, *args, **kwargs):
        """Run the module inside, whose parameters are gathered for it."""
        return self.module(*args, **kwargs)

    def check_is_root(self):
        """Whether no other one is around this."""
        self.module._fsdp_state.lazy_init(self.module)
        return self.module._fsdp_state.is_root

    @staticmethod
    def fsdp_modules(module, root_only=False):
        """The modules of this class within a module.

        Args:
            module: the module.
            root_only: whether those within others are left out.

        >>> import rushlight as rl
        >>> FullyShardedDataParallel.fsdp_modules(rl.nn.Linear(1, 1))
        []
        """
        found = [m for m in module.modules() if isinstance(m, FullyShardedDataParallel)]
        if not root_only:
            return found
        inner = {id(m) for each in found for m in each.module.modules()}
        return [each for each in found if id(each) not in inner]

    @contextlib.contextmanager
    def no_sync(self):
        """A block in which gradients gather on each process."""
        try:
            self.module.set_requires_gradient_sync(False)
            yield
        finally:
            self.module.set_requires_gradient_sync(True)

    def clip_grad_norm_(self, max_norm, norm_type=2.0):
        """Scale the gradients so that the norm of all is at most a number.

        Args:
            max_norm: the number.
            norm_type: the exponent of the norm.

        Returns:
            The norm before, on every process.
        """
        total = rl.nn.utils.clip_grad_norm_(self.parameters(), max_norm, norm_type)
        return total.full_tensor() if isinstance(total, DTensor) else total

    @staticmethod
    @contextlib.contextmanager
    def summon_full_params(
        module,
        recurse=True,
        writeback=True,
        rank0_only=False,
        offload_to_cpu=False,
        with_grads=False,
    ):
        """A block in which the parameters are whole.

        Args:
            module: the module.
            recurse: whether those of submodules are, too.
            writeback: whether what is changed counts afterwards.
            rank0_only: without effect: they are whole on every process.
            offload_to_cpu: without effect on the host.
            with_grads: not supported.

        Raises:
            NotImplementedError: gradients are wanted.
        """
        if with_grads:
            raise NotImplementedError("with_grads=True is not supported")
        modules = FullyShardedDataParallel.fsdp_modules(module)
        groups = [each.module._fsdp_state.group for each in modules]
        groups = groups if recurse else groups[:1]
        for group in groups:
            group.unshard()
        try:
            yield
        finally:
            for group in groups:
                if writeback:
                    group.write_back()
                group.reshard()

    # -- states -----------------------------------------------------------------------

    @staticmethod
    def set_state_dict_type(
        module, state_dict_type, state_dict_config=None, optim_state_dict_config=None
    ):
        """Say how states are made from now on.

        Args:
            module: the module.
            state_dict_type: whole, or spread.
            state_dict_config: further choices.
            optim_state_dict_config: those of optimizers' states.

        Returns:
            The settings before.
        """
        whole = state_dict_type is StateDictType.FULL_STATE_DICT
        configs = (
            state_dict_config
            or (FullStateDictConfig() if whole else ShardedStateDictConfig()),
            optim_state_dict_config
            or (FullOptimStateDictConfig() if whole else ShardedOptimStateDictConfig()),
        )
        before = FullyShardedDataParallel.get_state_dict_type(module)
        for each in FullyShardedDataParallel.fsdp_modules(module):
            each._settings = StateDictSettings(state_dict_type, *configs)
        return before

    @staticmethod
    def get_state_dict_type(module):
        """How states are made.

        Args:
            module: the module.
        """
        return FullyShardedDataParallel.fsdp_modules(module)[0]._settings

    @staticmethod
    @contextlib.contextmanager
    def state_dict_type(
        module, state_dict_type, state_dict_config=None, optim_state_dict_config=None
    ):
        """A block in which states are made in another way.

        Args:
            module: the module.
            state_dict_type: whole, or spread.
            state_dict_config: further choices.
            optim_state_dict_config: those of optimizers' states.
        """
        before = FullyShardedDataParallel.set_state_dict_type(
            module, state_dict_type, state_dict_config, optim_state_dict_config
        )
        try:
            yield
        finally:
            for each in FullyShardedDataParallel.fsdp_modules(module):
                each._settings = before

    @staticmethod
    def optim_state_dict(model, optim, optim_state_dict=None, group=None):
        """An optimizer's state by the parameters' names.

        Args:
            model: the module.
            optim: the optimizer.
            optim_state_dict: without effect: the optimizer's own.
            group: without effect.
        """
        settings = FullyShardedDataParallel.get_state_dict_type(model)
        whole = settings.state_dict_type is StateDictType.FULL_STATE_DICT
        state = get_optimizer_state_dict(
            model, optim, options=StateDictOptions(full_state_dict=whole)
        )
        alone = getattr(settings.optim_state_dict_config, "rank0_only", False)
        return {} if alone and whole and get_rank() else state

    full_optim_state_dict = sharded_optim_state_dict = optim_state_dict

    @staticmethod
    def optim_state_dict_to_load(
        model, optim, optim_state_dict, is_named_optimizer=False, load_directly=False
    ):
        """A state by names as the optimizer's own ``load_state_dict`` takes it.

        Args:
            model: the module.
            optim: the optimizer.
            optim_state_dict: as ``optim_state_dict`` gives it.
            is_named_optimizer: without effect.
            load_directly: whether it is loaded, too.
        """
        parameters = {
            name.replace(FSDP_PREFIX, ""): each
            for name, each in model.named_parameters()
        }
        names = {id(each): name for name, each in parameters.items()}
        state, groups, number = {}, [], 0
        given = {
            name: g for g in optim_state_dict["param_groups"] for name in g["params"]
        }
        for group in optim.param_groups:
            numbers, settings = [], group
            for each in group["params"]:
                name = names[id(each)]
                settings = given.get(name, settings)
                values = optim_state_dict["state"].get(name)
                if values is not None:
                    state[number] = {k: _like(v, each) for k, v in values.items()}
                numbers.append(number)
                number += 1
            groups.append({**settings, "params": numbers})
        made = {"state": state, "param_groups": groups}
        if load_directly:
            optim.load_state_dict(made)
        return made


def _like(value, parameter):
    """A value of a state, spread as a parameter of its sizes is."""
    if not isinstance(value, rl.Tensor) or isinstance(value, DTensor):
        return value
    if value.shape != parameter.shape or not isinstance(parameter, DTensor):
        return value
    return distribute_tensor(
        value.detach(), parameter.device_mesh, parameter.placements, src_data_rank=None
    )


def _ignored(modules, states):
    found = set()
    for each in [*(modules or ()), *(states or ())]:
        found |= set(each.parameters()) if isinstance(each, Module) else {each}
    return found


def _copy_from_first(module, mesh):
    with rl.no_grad():
        for each in [*module.parameters(), *module.buffers()]:
            if isinstance(each, DTensor):
                continue
            for group in mesh.get_all_groups():
                collectives.broadcast(each.detach(), group=group, group_src=0)


def _wrap_children(module, policy, wrapper, options):
    for parent, name, child, own in chosen_modules(module, policy, options):
        if not isinstance(child, FullyShardedDataParallel):
            setattr(parent, name, wrapper(child, **own))


def _give_state(module, state, prefix, local_metadata):
    """Names without the wrapper's, values whole where they are wanted so."""
    settings, start = module._settings, prefix + FSDP_PREFIX
    whole = settings.state_dict_type is StateDictType.FULL_STATE_DICT
    alone = whole and getattr(settings.state_dict_config, "rank0_only", False)
    for name in [each for each in state if each.startswith(start)]:
        value = state.pop(name)
        if whole and isinstance(value, DTensor):
            value = value.detach().full_tensor()
        if not (alone and get_rank()):
            state[prefix + name[len(start) :]] = value


def _take_state(module, state, prefix, *rest):
    """Names with the wrapper's, values spread as the parameters are."""
    own = module.module.state_dict()
    for name in [each for each in state if each.startswith(prefix)]:
        value, key = state.pop(name), name[len(prefix) :]
        key = key.removeprefix(FSDP_PREFIX)
        if key in own and isinstance(value, rl.Tensor):
            value = _like(value, own[key])
        state[prefix + FSDP_PREFIX + key] = value
