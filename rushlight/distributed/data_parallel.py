"""``DistributedDataParallel``: a module in several processes that share gradients."""

import copy
import dataclasses

import rushlight as rl
from rushlight.core.state import AttributeScope
from rushlight.core.tensor import Tensor
from rushlight.distributed import world as groups
from rushlight.distributed.algorithms.join import Join, Joinable, JoinHook
from rushlight.distributed.reducer import FIRST_BUCKET_BYTES, Reducer
from rushlight.nn.modules.module import Module
from rushlight.utils._pytree import tree_map_only

BUCKET_MB = 25


def _tensors_in(value):
    """The tensors of nested lists, tuples, dicts and dataclasses."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        value = value.values()
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = [getattr(value, f.name) for f in dataclasses.fields(value)]
    elif not isinstance(value, (list, tuple)):
        return []
    return [tensor for each in value for tensor in _tensors_in(each)]


def _reached(outputs):
    """The leaves that a backward from some tensors reaches."""
    stack = [t.grad_fn for t in outputs if t.grad_fn is not None]
    leaves = [t for t in outputs if t.grad_fn is None and t.requires_grad]
    seen = set(stack)
    while stack:
        node = stack.pop()
        variable = getattr(node, "variable", None)
        if variable is not None:
            leaves.append(variable)
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                stack.append(following)
    return leaves


class _DDPJoinHook(JoinHook):
    def __init__(self, model, divide_by_initial_world_size):
        self.model, self.divides_by_all = model, divide_by_initial_world_size

    def main_hook(self):
        """Take part in one iteration of the ranks that have input."""
        model = self.model
        if model._will_sync_buffers():
            model._sync_buffers()
        if model.require_backward_grad_sync:
            model.reducer.shadow()

    def post_hook(self, is_last_joiner):
        """Take the parameters of a rank that came last."""
        self.model._sync_final_model(is_last_joiner)


def _index_of(device):
    """The index of a device, of its name or of a number; the current one's of a bare name."""
    if isinstance(device, int):
        return device
    found = rl.device(device)
    return rl.cuda.current_device() if found.index is None else found.index


class DistributedDataParallel(Module, Joinable):
    """A module in every process of a group, whose gradients are averaged over all.

    Parameters and buffers start as rank 0's. In a backward, gradients are gathered in
    buckets, in the order that they come, and each bucket is reduced while the backward
    goes on. After it every rank has the same gradients: those of one process with the
    whole batch, where the loss is a mean and ranks have equal shares.

    Args:
        module: the module; it is this one's attribute ``module``, and so in its state.
        device_ids: the one device of this process, where tensors that the module is given go;
            None for a module on the host, or on several devices.
        output_device: kept; results stay where they are.
        dim: the dimension of the batch.
        broadcast_buffers: whether buffers are rank 0's before each forward; they are.
        init_sync: whether parameters and buffers start as rank 0's.
        process_group: the group; all processes without it.
        bucket_cap_mb: how large a bucket may be, in MiB: 25.
        find_unused_parameters: whether each forward looks which parameters the backward
            will reach; without it, all must be.
        gradient_as_bucket_view: whether gradients share the buckets' memory.
        static_graph: whether every iteration uses the same parameters, as often.

    Raises:
        ValueError: this process has joined no others.
        RuntimeError: no parameter needs a gradient, or ranks have different ones.
    """

    __module__ = "rushlight.nn.parallel.distributed"

    def __init__(
        self,
        module,
        device_ids=None,
        output_device=None,
        dim=0,
        broadcast_buffers=None,
        init_sync=True,
        process_group=None,
        bucket_cap_mb=None,
        find_unused_parameters=False,
        check_reduction=False,
        gradient_as_bucket_view=False,
        static_graph=False,
        delay_all_reduce_named_params=None,
        param_to_hook_all_reduce=None,
        mixed_precision=None,
        device_mesh=None,
        skip_all_reduce_unused_params=False,
        bucket_cap_mb_list=None,
        batched_grad_copy=False,
        forward_sync_buffers=None,
    ):
        super().__init__()
        Joinable.__init__(self)
        if device_mesh is not None:
            process_group = device_mesh.get_group()
        groups.world.membership(process_group)
        chosen = process_group or groups.world.default
        self.process_group, self.device_mesh = chosen, device_mesh
        self.module, self.dim = module, dim
        self._check_module(module, device_ids, output_device)
        self._set_devices(device_ids, output_device)
        self.broadcast_buffers = (
            True if broadcast_buffers is None else broadcast_buffers
        )
        self.find_unused_parameters = find_unused_parameters
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.static_graph = static_graph
        self.require_backward_grad_sync = self.require_forward_param_sync = True
        ignored = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        self.parameters_to_ignore = ignored
        bucket_mb = BUCKET_MB if bucket_cap_mb is None else bucket_cap_mb
        self.bucket_bytes_cap = int(bucket_mb * 1024 * 1024)
        self._module_parameters = [p for _, p in self._named_parameters()]
        self._verify_shapes()
        if init_sync:
            self._sync_states()
        first = FIRST_BUCKET_BYTES if bucket_cap_mb is None else self.bucket_bytes_cap
        self.reducer = Reducer(self._named_parameters(), chosen, self._options(first))

    def _options(self, first_bytes):
        return {
            "bucket_bytes": self.bucket_bytes_cap,
            "first_bytes": first_bytes,
            "as_views": self.gradient_as_bucket_view,
            "finds_unused": self.find_unused_parameters,
            "is_static": self.static_graph,
        }

    def _check_module(self, module, device_ids, output_device):
        if not any(p.requires_grad for p in module.parameters()):
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any "
                "parameters that require a gradient."
            )
        if device_ids is not None and len(device_ids) > 1:
            raise ValueError("device_ids can only be None or contain a single element.")
        devices = {p.device for p in module.parameters()}
        kinds = {each.type for each in devices}
        if len(kinds) > 1:
            raise ValueError(
                "DistributedDataParallel's input module must be on the same type of "
                f"devices, but input module parameters locate in {kinds}."
            )
        has_one = len(devices) == 1 and kinds != {"cpu"}
        if (device_ids or output_device) and not has_one:
            raise ValueError(
                "DistributedDataParallel device_ids and output_device arguments only "
                "work with single-device/multiple-device GPU modules or CPU modules, "
                f"but got device_ids {device_ids}, output_device {output_device}, and "
                f"module parameters {devices}."
            )

    def _set_devices(self, device_ids, output_device):
        """Keep which device this process uses, where one was named."""
        devices = {p.device for p in self.module.parameters()}
        self.device = next(self.module.parameters()).device
        self.device_type = self.device.type
        self.is_multi_device_module = len(devices) > 1
        self.device_ids = self.output_device = None
        if device_ids:
            self.device_ids = [_index_of(each) for each in device_ids]
            chosen = device_ids[0] if output_device is None else output_device
            self.output_device = _index_of(chosen)

    def _on_device(self, values):
        """What the module is given, its tensors on the device that was named."""
        if self.device_ids is None:
            return values
        device = rl.device(self.device_type, self.device_ids[0])
        return tree_map_only(Tensor, lambda each: each.to(device), values)

    def _named_parameters(self):
        return [
            (name, each)
            for name, each in self.module.named_parameters()
            if each.requires_grad and name not in self.parameters_to_ignore
        ]

    def _buffers_to_sync(self):
        return [
            each
            for name, each in self.module.named_buffers()
            if name not in self.parameters_to_ignore
        ]

    def _said(self, values):
        """Numbers that other ranks are told."""
        return rl.tensor(values, device=self.process_group._coordination_device())

    def _verify_shapes(self):
        """Raises where this rank's parameters are not those of rank 0."""
        sizes = [[p.numel(), *p.shape] for p in self._module_parameters]
        count = self._said([len(sizes)])
        self.process_group._broadcast(count, 0)
        rank = self.process_group.rank()
        if int(count) != len(sizes):
            raise RuntimeError(
                f"DDP expects same model across all ranks, but Rank {rank} has "
                f"{len(sizes)} params, while rank 0 has {int(count)} params."
            )
        own = self._said([[s[0], hash(tuple(s)) & 0x7FFFFFFF] for s in sizes])
        first = own.clone()
        self.process_group._broadcast(first, 0)
        for index, (mine, theirs) in enumerate(zip(own.tolist(), first.tolist())):
            if mine != theirs:
                raise RuntimeError(
                    f"[{rank}]: params[{index}] in this process with sizes "
                    f"{sizes[index][1:]} appears not to match sizes of the same param "
                    "in process 0."
                )

    def _broadcast_all(self, tensors, root=0):
        """Copy one rank's tensors to all, those of one type at once."""
        kinds: dict = {}
        for each in tensors:
            kinds.setdefault((each.dtype, each.device), []).append(each.detach())
        for several in kinds.values():
            flat = rl.cat([each.reshape(-1) for each in several])
            self.process_group._broadcast(flat, root)
            if self.process_group.rank() == root:
                continue
            parts = flat.split([each.numel() for each in several])
            for each, part in zip(several, parts):
                each.copy_(part.view(each.shape))

    def _sync_states(self, root=0):
        parameters = [
            p
            for n, p in self.module.named_parameters()
            if n not in self.parameters_to_ignore
        ]
        with rl.no_grad():
            self._broadcast_all(parameters + self._buffers_to_sync(), root)

    def _will_sync_buffers(self):
        return (
            self.require_forward_param_sync
            and self.broadcast_buffers
            and bool(self._buffers_to_sync())
        )

    def _sync_buffers(self):
        with rl.no_grad():
            self._broadcast_all(self._buffers_to_sync())

    def _sync_final_model(self, is_last_joiner):
        """Take parameters and buffers of the highest rank that came last."""
        rank = self.process_group.rank() if is_last_joiner else -1
        found = self._said([rank])
        self.process_group._all_reduce([found], rl.distributed.ReduceOp.MAX)
        self._sync_states(int(found))

    # -- an iteration -----------------------------------------------------------------

    def forward(self, *inputs, **kwargs):
        """The module's result; a backward from it shares gradients."""
        shares = rl.is_grad_enabled() and self.require_backward_grad_sync
        if shares:
            self.reducer._check_finished()
            Join.notify_join_context(self)
            if self._join_config.enable:
                self._divide_by_active()
            else:
                self.reducer.rebuild(lambda t: self.process_group._broadcast(t, 0))
                self.reducer.share_buckets()
        if self._will_sync_buffers():
            self._sync_buffers()
        inputs, kwargs = self._on_device((inputs, kwargs))
        output = self.module(*inputs, **kwargs)
        self.reducer.is_on = shares
        if shares:
            self.require_forward_param_sync = True
            looks = self.find_unused_parameters and not self.static_graph
            tensors = _tensors_in(output) if looks else []
            self.reducer.prepare((lambda: _reached(tensors)) if looks else None)
        elif rl.is_grad_enabled():
            self.require_forward_param_sync = False
        return output

    def _divide_by_active(self):
        if self._join_config.throw_on_early_termination:
            return
        active = self.process_group.size()
        if not self._divides_by_all:
            count = self._said([1.0])
            self.process_group._all_reduce([count])
            active = int(count)
        self.reducer.divisor = active

    def no_sync(self):
        """Gradients are accumulated and not shared; the next backward shares the sums.

        The forward must be in the block, too.
        """
        return AttributeScope(self, require_backward_grad_sync=False)

    def join(
        self,
        divide_by_initial_world_size=True,
        enable=True,
        throw_on_early_termination=False,
    ):
        """A block in which ranks may have different numbers of iterations.

        Args:
            divide_by_initial_world_size: whether sums are divided by the number of all
                ranks, or of those that have input.
            enable: whether it does anything.
            throw_on_early_termination: whether all raise when one has no more input.
        """
        return Join(
            [self],
            enable,
            throw_on_early_termination,
            divide_by_initial_world_size=divide_by_initial_world_size,
        )

    def join_hook(self, **kwargs):
        """What ranks without input do in a block of ``join``."""
        self._divides_by_all = kwargs.get("divide_by_initial_world_size", True)
        return _DDPJoinHook(self, self._divides_by_all)

    @property
    def join_device(self):
        """The device of the parameters."""
        return self.device

    @property
    def join_process_group(self):
        """The group."""
        return self.process_group

    # -- hooks, records, copies -------------------------------------------------------

    def register_comm_hook(self, state, hook):
        """Reduce buckets by a function in place of an all-reduce.

        Args:
            state: handed to the function.
            hook: called with the state and a ``GradBucket``; gives a ``Future`` of the
                reduced buffer.

        Raises:
            TypeError: it cannot be called.
            RuntimeError: there is one.
        """
        if not callable(hook):
            raise TypeError("Communication hook must be callable.")
        if self.reducer.hook is not None:
            raise RuntimeError(
                "register_comm_hook or register_builtin_comm_hook can only be called "
                "once."
            )
        self.reducer.hook, self.reducer.hook_state = hook, state

    def _get_ddp_logging_data(self):
        """What the reducer did: sizes of buckets, iterations, times of each bucket."""
        found = self.reducer.statistics
        buckets = self.reducer.buckets
        return {
            "world_size": self.process_group.size(),
            "rank": self.process_group.rank(),
            "iteration": found["iterations"],
            "num_parameter_tensors": len(self._module_parameters),
            "bucket_sizes": [b.flat.numel() * b.flat.element_size() for b in buckets],
            "has_rebuilt_buckets": found["rebuilt"],
            "bucket_start_and_end_seconds": found["bucket_times"],
            "find_unused_parameters": self.find_unused_parameters,
            "gradient_as_bucket_view": self.gradient_as_bucket_view,
            "static_graph": self.static_graph,
        }

    def _set_static_graph(self):
        """Say that every iteration uses the same parameters."""
        self.static_graph = self.reducer.options["is_static"] = True

    @staticmethod
    def _set_params_and_buffers_to_ignore_for_model(module, names):
        module._ddp_params_and_buffers_to_ignore = names

    def __getstate__(self):
        state = copy.copy(self.__dict__)
        for name in ("process_group", "reducer"):
            del state[name]
        return state

    def __setstate__(self, state):
        super().__setstate__(state)
        groups.world.membership()
        self.process_group = groups.world.default
        self.reducer = Reducer(
            self._named_parameters(),
            self.process_group,
            self._options(FIRST_BUCKET_BYTES),
        )

    def train(self, mode=True):
        """Set the module to training or evaluation."""
        super().train(mode)
        return self
