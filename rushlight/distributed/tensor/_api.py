"""``DTensor``: a tensor of which every process of a mesh holds a part."""

import inspect
import warnings

import rushlight as rl
from rushlight.autograd.function import Function
from rushlight.distributed import collective_functions as collectives
from rushlight.distributed.tensor._dispatch import dispatch, part_of, sum_to_partial
from rushlight.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta
from rushlight.distributed.tensor._redistribute import chunks_of, redistribute
from rushlight.distributed.tensor._utils import (
    contiguous_strides,
    global_shape_of,
    normalized,
)
from rushlight.distributed.tensor.placement_types import Partial, Replicate, Shard

__all__ = ["DTensor", "distribute_module", "distribute_tensor"]


class _ToTorchTensor(Function):
    @staticmethod
    def forward(ctx, spread, grad_placements):
        ctx.spec, ctx.grad_placements = spread._spec, grad_placements
        local = spread._local_tensor
        return local.view_as(local)

    @staticmethod
    def backward(ctx, grad):
        spec = ctx.spec
        placements = ctx.grad_placements or sum_to_partial(spec.placements)
        meta = TensorMeta(spec.shape, contiguous_strides(spec.shape), grad.dtype)
        return DTensor(grad, DTensorSpec(spec.mesh, tuple(placements), meta)), None


class _FromLocal(Function):
    @staticmethod
    def forward(ctx, local, spec, grad_placements):
        ctx.spec, ctx.grad_placements = spec, grad_placements
        return DTensor(local.view_as(local), spec)

    @staticmethod
    def backward(ctx, grad):
        wanted = ctx.grad_placements or sum_to_partial(ctx.spec.placements)
        return redistribute(grad._local_tensor, grad._spec, wanted), None, None


class _Redistribute(Function):
    @staticmethod
    def forward(ctx, spread, placements, dtypes):
        ctx.spec, (forward_dtype, ctx.backward_dtype) = spread._spec, dtypes
        ctx.dtype = spread.dtype
        local = spread._local_tensor
        if forward_dtype is not None:
            local = local.to(forward_dtype)
        found = redistribute(local, spread._spec, placements)
        if found is spread._local_tensor:
            found = found.view_as(found)
        meta = spread._spec.tensor_meta
        meta = TensorMeta(meta.shape, meta.stride, found.dtype)
        return DTensor(found, DTensorSpec(ctx.spec.mesh, tuple(placements), meta))

    @staticmethod
    def backward(ctx, grad):
        local = grad._local_tensor
        if ctx.backward_dtype is not None:
            local = local.to(ctx.backward_dtype)
        wanted = tuple(
            before if isinstance(before, Partial) else now
            for before, now in zip(
                grad._spec.placements, sum_to_partial(ctx.spec.placements)
            )
        )
        wanted = tuple(
            Replicate() if isinstance(old, Partial) and isinstance(now, Partial) else w
            for old, now, w in zip(ctx.spec.placements, grad._spec.placements, wanted)
        )
        wanted = tuple(
            old if isinstance(old, Shard) else w
            for old, w in zip(ctx.spec.placements, wanted)
        )
        local = redistribute(local, grad._spec, wanted).to(ctx.dtype)
        meta = grad._spec.tensor_meta
        meta = TensorMeta(meta.shape, meta.stride, ctx.dtype)
        spec = DTensorSpec(ctx.spec.mesh, wanted, meta)
        return DTensor(local, spec), None, None


class DTensor(rl.Tensor):
    """A tensor of which every process of a mesh holds a part.

    It computes as one tensor does: each operator chooses how its operands must be placed,
    moves what has to move, and works on the parts. ``distribute_tensor`` and
    ``DTensor.from_local`` make one.

    Args:
        local_tensor: this process's part.
        spec: the mesh, the placements, and the sizes of the whole.
        requires_grad: whether gradients flow to it.
    """

    __module__ = "rushlight.distributed.tensor"
    _spec: DTensorSpec
    _local_tensor: rl.Tensor

    @staticmethod
    def __new__(cls, local_tensor, spec, *, requires_grad=False):
        meta = spec.tensor_meta
        made = rl.Tensor._make_wrapper_subclass(
            cls,
            meta.shape,
            strides=meta.stride,
            dtype=local_tensor.dtype,
            device=local_tensor.device,
            layout=local_tensor.layout,
            requires_grad=requires_grad,
        )
        made._spec = spec
        made._local_tensor = (
            local_tensor.detach() if local_tensor.requires_grad else local_tensor
        )
        return made

    def __init__(self, *args, **kwargs):
        super().__init__()

    __torch_function__ = rl._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return dispatch(DTensor, func, args, kwargs or {})

    def __repr__(self, *, tensor_contents=None):
        return (
            f"DTensor(local_tensor={self._local_tensor}, "
            f"device_mesh={self._spec.mesh}, placements={self._spec.placements})"
        )

    def __tensor_flatten__(self):
        """The names of inner tensors, and what else it is made of."""
        return ["_local_tensor"], (self._spec, self.requires_grad)

    @staticmethod
    def __tensor_unflatten__(inner_tensors, flatten_spec, outer_size, outer_stride):
        """The tensor that ``__tensor_flatten__`` took apart."""
        spec, requires_grad = flatten_spec
        meta = TensorMeta(outer_size, tuple(outer_stride), spec.tensor_meta.dtype)
        spec = DTensorSpec(spec.mesh, spec.placements, meta)
        return DTensor(
            inner_tensors["_local_tensor"], spec, requires_grad=requires_grad
        )

    @staticmethod
    def from_local(
        local_tensor,
        device_mesh=None,
        placements=None,
        *,
        run_check=False,
        shape=None,
        stride=None,
        grad_placements=None,
    ):
        """A spread tensor of the parts that processes have.

        Args:
            local_tensor: this process's part; gradients flow to it.
            device_mesh: the processes.
            placements: how each dimension of the mesh holds the tensor; whole on all
                without them.
            run_check: whether to copy what should be alike from the first process.
            shape: the sizes of the whole, where parts differ.
            stride: its strides; both or none are given.
            grad_placements: how the gradient of the part is placed.

        Raises:
            RuntimeError: only one of ``shape`` and ``stride`` is given.
        """
        if isinstance(local_tensor, DTensor):
            raise RuntimeError(
                "the local_tensor argument only accepts torch.Tensor but got "
                f"{type(local_tensor)} value."
            )
        if (shape is None) != (stride is None):
            raise RuntimeError(
                f"Found shape:{shape}, stride:{stride}.",
                "Please pass both shape and stride at the same time.",
            )
        mesh = device_mesh
        placements = normalized(placements, local_tensor.dim(), mesh, RuntimeError)
        if shape is None:
            shape = global_shape_of(local_tensor.shape, mesh, placements)
            stride = _strides_like(local_tensor, shape)
        if mesh.get_coordinate() is None:
            local_tensor = local_tensor.new_empty(0)
        elif run_check:
            local_tensor = _checked(local_tensor, mesh, placements)
        meta = TensorMeta(rl.Size(shape), tuple(stride), local_tensor.dtype)
        spec = DTensorSpec(mesh, placements, meta)
        return _FromLocal.apply(local_tensor, spec, grad_placements)

    def to_local(self, *, grad_placements=None):
        """This process's part, through which gradients flow back.

        Args:
            grad_placements: how the gradient of the parts is placed.
        """
        if not rl.is_grad_enabled() or not self.requires_grad:
            return self._local_tensor
        if grad_placements is not None:
            grad_placements = tuple(grad_placements)
        return _ToTorchTensor.apply(self, grad_placements)

    def redistribute(
        self,
        device_mesh=None,
        placements=None,
        *,
        async_op=False,
        forward_dtype=None,
        backward_dtype=None,
    ):
        """The same tensor, placed in another way.

        Args:
            device_mesh: the processes, which are the same.
            placements: how each dimension of the mesh holds the tensor.
            async_op: without effect: parts are there when it returns.
            forward_dtype: the type in which elements move.
            backward_dtype: the type in which gradients move.

        Raises:
            RuntimeError: no placements are given, or shares of a sum are wanted.
        """
        if placements is None:
            raise RuntimeError("placements is needed for redistribute!")
        mesh = self._spec.mesh if device_mesh is None else device_mesh
        if mesh != self._spec.mesh:
            raise NotImplementedError("Cross device mesh comm not supported yet!")
        placements = normalized(placements, self.dim(), mesh)
        for before, after in zip(self._spec.placements, placements):
            if isinstance(after, Partial) and before != after:
                raise RuntimeError(
                    f"Can not redistribute from {before} to {after}, redistributing to "
                    "Partial is for internal use only!"
                )
        return _Redistribute.apply(self, placements, (forward_dtype, backward_dtype))

    def full_tensor(self, *, grad_placements=None):
        """The whole, on every process.

        Args:
            grad_placements: how the gradient of the whole is placed.
        """
        whole = (Replicate(),) * self._spec.mesh.ndim
        spread = (
            self
            if self._spec.placements == whole
            else self.redistribute(placements=whole)
        )
        return spread.to_local(grad_placements=grad_placements)

    @property
    def device_mesh(self):
        """The processes."""
        return self._spec.mesh

    @property
    def placements(self):
        """How each dimension of the mesh holds the tensor."""
        return self._spec.placements


def _strides_like(local, shape):
    """Strides of a whole whose dimensions lie in the order that a part's do."""
    order = sorted(range(local.dim()), key=lambda dim: (-local.stride(dim), dim))
    strides, step = [1] * len(shape), 1
    for dim in reversed(order):
        strides[dim] = step
        step *= max(shape[dim], 1)
    return tuple(strides)


def _checked(local, mesh, placements):
    """The part, copied from the first process where all should be alike."""
    local = local.contiguous()
    for mesh_dim, placement in enumerate(placements):
        if isinstance(placement, Replicate):
            local = local.clone()
            collectives.broadcast(local, group=mesh.get_group(mesh_dim), group_src=0)
    return local


def _scattered(tensor, dim, mesh, mesh_dim, src):
    """One process's tensor, of which each gets its part."""
    group, count = mesh.get_group(mesh_dim), mesh.size(mesh_dim)
    parts = [each.contiguous() for each in chunks_of(tensor, dim, count)]
    own = parts[group.rank()]
    if len({part.shape for part in parts}) == 1:
        output = rl.empty_like(own)
        inputs = parts if group.rank() == src else None
        collectives.scatter(output, inputs, group=group, group_src=src)
        return output
    whole = tensor.contiguous().clone()
    collectives.broadcast(whole, group=group, group_src=src)
    return chunks_of(whole, dim, count)[group.rank()].contiguous()


def _placed_from(tensor, mesh, mesh_dim, placement, src):
    """A part, after one dimension of the mesh has it from one of its processes."""
    group = mesh.get_group(mesh_dim)
    if isinstance(placement, Shard):
        if src is None:
            parts = chunks_of(tensor, placement.dim, group.size())
            return parts[group.rank()].clone(memory_format=rl.contiguous_format)
        return _scattered(tensor, placement.dim, mesh, mesh_dim, src)
    if src is not None:
        tensor = tensor.contiguous().clone()
        collectives.broadcast(tensor, group=group, group_src=src)
    if isinstance(placement, Partial) and placement.reduce_op == "sum":
        return tensor / group.size()
    return tensor


def distribute_tensor(tensor, device_mesh=None, placements=None, *, src_data_rank=0):
    """Spread a tensor over the processes of a mesh.

    Args:
        tensor: a leaf; the same sizes on every process.
        device_mesh: the processes.
        placements: how each dimension of the mesh holds it; whole on all without them.
        src_data_rank: the process, in each dimension of the mesh, whose elements count;
            None where each takes its own.

    Returns:
        A ``DTensor``.

    Raises:
        RuntimeError: the tensor is not a leaf.
        ValueError: there is not one placement for each dimension of the mesh.
    """
    if not tensor.is_leaf:
        raise RuntimeError(
            "`distribute_tensor` should be used to distribute leaf tensors! but found "
            "non-leaf tensor!"
        )
    mesh = device_mesh
    if placements is None:
        placements = (Replicate(),) * mesh.ndim
    placements = normalized(placements, tensor.dim(), mesh)
    if isinstance(tensor, DTensor):
        _same_spread(tensor, mesh, placements)
        return tensor
    local = tensor.detach()
    if mesh.get_coordinate() is None:
        local = local.new_empty(0)
    elif not local.is_meta:
        for mesh_dim, placement in enumerate(placements):
            local = _placed_from(local, mesh, mesh_dim, placement, src_data_rank)
    meta = TensorMeta(tensor.shape, tuple(tensor.stride()), tensor.dtype)
    spec = DTensorSpec(mesh, placements, meta)
    if local.is_meta and mesh.get_coordinate() is not None:
        local = part_of(local, spec)
    return DTensor(local, spec, requires_grad=tensor.requires_grad)


def _same_spread(tensor, mesh, placements):
    if tensor.device_mesh != mesh:
        raise ValueError(
            f"Cannot distribute a DTensor with device mesh {tensor.device_mesh} to a "
            f"different device mesh {mesh}."
        )
    if tensor.placements != placements:
        raise ValueError(
            f"Cannot distribute a DTensor with placements {tensor.placements} to a "
            f"different placements {list(placements)}. do you want to call "
            "`redistribute` instead?"
        )


def _replicate_module(module, mesh):
    """Spread what is not spread yet: whole on every process."""
    whole = (Replicate(),) * mesh.ndim
    for name, parameter in list(module._parameters.items()):
        if parameter is not None and not isinstance(parameter, DTensor):
            made = distribute_tensor(parameter.data, mesh, whole)
            made = rl.nn.Parameter(made, requires_grad=parameter.requires_grad)
            module.register_parameter(name, made)
    for name, buffer in list(module._buffers.items()):
        if buffer is not None and not isinstance(buffer, DTensor):
            module._buffers[name] = distribute_tensor(buffer, mesh, whole)


def distribute_module(
    module, device_mesh=None, partition_fn=None, input_fn=None, output_fn=None
):
    """Spread a module's parameters, and what comes in and goes out.

    Args:
        module: the module; changed in place.
        device_mesh: the processes.
        partition_fn: called with each submodule's name, the submodule and the mesh, to
            spread its parameters; those it leaves are whole on all.
        input_fn: called with the module, its inputs and the mesh, before ``forward``.
        output_fn: called with the module, its outputs and the mesh, after it.

    Returns:
        The module.

    Raises:
        RuntimeError: it has been spread already.
    """
    if getattr(module, "_distribute_module_applied", False):
        raise RuntimeError(
            "distribute_module should only be called once on a module, but it has "
            "already been called on this module!"
        )
    mesh = device_mesh
    for name, submodule in module.named_modules():
        if partition_fn is not None:
            partition_fn(name, submodule, mesh)
        _replicate_module(submodule, mesh)
    if input_fn is not None:
        before = _with_module(input_fn, "input_fn", "inputs")
        module.register_forward_pre_hook(lambda own, inputs: before(own, inputs, mesh))
    if output_fn is not None:
        after = _with_module(output_fn, "output_fn", "outputs")
        module.register_forward_hook(
            lambda own, inputs, outputs: after(own, outputs, mesh)
        )
    module._distribute_module_applied = True
    return module


def _with_module(function, name, values):
    """A function of module, values and mesh; older ones do not take the module."""
    count = len(inspect.signature(function).parameters)
    if count == 3:
        return function
    if count != 2:
        raise ValueError(
            f"{name} should take in 3 arguments, but got {count} arguments!"
        )
    warnings.warn(
        f"Deprecating {name} that takes two arguments ({values}, device_mesh), please "
        f"use {name} that takes in (module, {values}, device_mesh) instead!",
        FutureWarning,
        stacklevel=3,
    )
    return lambda module, given, mesh: function(given, mesh)
