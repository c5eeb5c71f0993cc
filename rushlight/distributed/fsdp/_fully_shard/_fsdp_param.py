"""One parameter that is cut over processes: its part, and the whole while it is needed."""

import math

import rushlight as rl
from rushlight.distributed.tensor import DTensor, Shard
from rushlight.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta
from rushlight.distributed.tensor._utils import contiguous_strides
from rushlight.distributed.tensor.placement_types import Replicate, _StridedShard
from rushlight.nn import Parameter

__all__ = ["FSDPParam", "ShardMesh"]


class ShardMesh:
    """The processes that parameters are cut over, and those that have copies.

    Args:
        mesh: one dimension that cuts, or two: copies, then cuts.
    """

    def __init__(self, mesh):
        if mesh.ndim not in (1, 2):
            raise ValueError(
                f"fully_shard expects a 1D or 2D DeviceMesh but got {mesh}"
            )
        self.mesh = mesh
        self.shard_group = mesh.get_group(mesh.ndim - 1)
        self.copies = mesh.get_group(0) if mesh.ndim == 2 else None
        self.size, self.rank = self.shard_group.size(), self.shard_group.rank()

    @property
    def total(self):
        """The number of processes among which a batch is divided."""
        return self.size * (self.copies.size() if self.copies else 1)


def _over_storage(storage, shape, dtype):
    """A tensor over a storage, with a count of changes of its own."""
    made = rl.empty(0, dtype=dtype, device=storage.device)
    return made.set_(storage, 0, shape, contiguous_strides(shape))


class FSDPParam:
    """A parameter of which each process keeps a part.

    Args:
        parameter: the whole, as the module has it.
        owners: pairs of a module and the name that the parameter has there.
        shard_mesh: the processes.
        placement: along which dimension it is cut.
        policy: the types in which it is gathered and its gradient reduced.
    """

    def __init__(self, parameter, owners, shard_mesh, placement, policy):
        self.owners, self.shard_mesh = owners, shard_mesh
        self.dim = placement.dim % max(parameter.dim(), 1)
        self.dtype, self.policy = parameter.dtype, policy
        self.gathered_dtype = policy.param_dtype or parameter.dtype
        self.inner_spec = None
        local = parameter.detach()
        if isinstance(local, DTensor):
            self.inner_spec = local._spec
            local = local.to_local()
        self.shape, size = local.shape, shard_mesh.size
        rows = local.shape[self.dim] if local.dim() else 1
        if self.dim and rows % size:
            raise NotImplementedError(
                f"FSDP does not support uneven sharding on dim {self.dim}: "
                f"{tuple(local.shape)} (world size: {size})"
            )
        self.rows = -(-rows // size)
        self._make_sharded(parameter, local)
        self.storage = self.buffer = self.unsharded = None

    # -- the part ---------------------------------------------------------------------

    def _make_sharded(self, parameter, local):
        size, start = Shard.local_shard_size_and_offset(
            local.shape[self.dim] if local.dim() else 1,
            self.shard_mesh.size,
            self.shard_mesh.rank,
        )
        if not local.dim():
            raise ValueError(
                "fully_shard does not support scalar parameters. Change a parameter to "
                "a 1D tensor with numel equal to 1."
            )
        sizes = list(local.shape)
        sizes[self.dim] = self.rows
        padded = local.new_zeros(sizes) if size < self.rows else local.new_empty(sizes)
        part = padded.narrow(self.dim, 0, size)
        if not local.is_meta:
            part.copy_(local.narrow(self.dim, start, size))
        self.padded = padded
        self.spec = self._spec_of(parameter)
        made = DTensor(part, self.spec)
        self.sharded = Parameter(made, requires_grad=parameter.requires_grad)
        self._copy_attributes(parameter, self.sharded)

    def _spec_of(self, parameter):
        mesh, cut = self.shard_mesh.mesh, Shard(self.dim)
        shape, placements = parameter.shape, [Replicate()] * (mesh.ndim - 1)
        if self.inner_spec is not None:
            inner = self.inner_spec.mesh
            root = mesh._root or mesh
            mesh = root[(*mesh.mesh_dim_names, *inner.mesh_dim_names)]
            factor = math.prod(
                inner.size(i)
                for i, each in enumerate(self.inner_spec.placements)
                if each.is_shard(self.dim)
            )
            cut = _StridedShard(self.dim, factor) if factor > 1 else cut
            placements += [cut, *self.inner_spec.placements]
        else:
            placements.append(cut)
        meta = TensorMeta(shape, contiguous_strides(shape), self.dtype)
        return DTensorSpec(mesh, tuple(placements), meta)

    @staticmethod
    def _copy_attributes(source, target):
        for name, value in vars(source).items():
            if not name.startswith("_"):
                setattr(target, name, value)

    def refresh(self):
        """Take what the module has now for the part: it may have been moved or cast."""
        module, name = self.owners[0]
        current = module._parameters[name]
        if current is self.sharded or current is self.unsharded:
            if current is not self.sharded or self._is_padded_part(current):
                return
        if not isinstance(current, DTensor):
            return
        self.sharded = current
        part = current.to_local().detach()
        sizes = list(part.shape)
        sizes[self.dim] = self.rows
        self.padded = part.new_zeros(sizes)
        own = self.padded.narrow(self.dim, 0, part.shape[self.dim])
        own.copy_(part)
        current._local_tensor = own
        self.dtype = current.dtype
        self.gathered_dtype = self.policy.param_dtype or self.dtype
        self.storage = self.buffer = self.unsharded = None
        for module, name in self.owners:
            module._parameters[name] = current

    def _is_padded_part(self, current):
        part = current._local_tensor
        same = part.data_ptr() == self.padded.data_ptr() and not part.is_meta
        return same or not part.numel()

    # -- the whole --------------------------------------------------------------------

    def allocate(self):
        """Memory for the whole; where the elements go, a row for each process."""
        sizes = list(self.shape)
        if self.dim == 0:
            sizes[0] = self.rows * self.shard_mesh.size
        count = math.prod(sizes)
        if self.storage is None:
            device = self.sharded.to_local().device
            made = rl.empty(count, dtype=self.gathered_dtype, device=device)
            self.storage = made.untyped_storage()
            self.buffer = _over_storage(self.storage, (count,), self.gathered_dtype)
            whole = _over_storage(self.storage, self.shape, self.gathered_dtype)
            if self.inner_spec is not None:
                whole = self._inner(whole)
            wanted = self.sharded.requires_grad
            self.unsharded = Parameter(whole, requires_grad=wanted)
            self._copy_attributes(self.sharded, self.unsharded)
        elif self.storage.nbytes() == 0:
            self.storage.resize_(count * self.gathered_dtype.itemsize)
        return self.buffer

    def _inner(self, local):
        meta = self.inner_spec.tensor_meta
        meta = TensorMeta(meta.shape, contiguous_strides(meta.shape), local.dtype)
        return DTensor(
            local, DTensorSpec(self.inner_spec.mesh, self.inner_spec.placements, meta)
        )

    def gather_input(self):
        """This process's part, as it is sent: flat, in the type of the whole."""
        part = self.padded
        if self.dim:
            part = part.movedim(self.dim, 0)
        return part.to(self.gathered_dtype).reshape(-1)

    def gather_output(self, rows):
        """Put the elements of all processes where they belong.

        Args:
            rows: a row for each process; None where they are in place.
        """
        if rows is None:
            return
        if self.dim == 0:
            self.buffer.view(rows.shape).copy_(rows)
            return
        sizes = list(self.shape)
        sizes[self.dim] = self.rows
        sizes.insert(0, sizes.pop(self.dim))
        parts = rows.reshape(-1, *sizes[1:]).movedim(0, self.dim)
        self.buffer.view(self.shape).copy_(parts)

    def free(self):
        """Give the memory of the whole back."""
        if self.storage is not None:
            self.storage.resize_(0)

    def to_unsharded(self):
        """Have the module use the whole."""
        for module, name in self.owners:
            module._parameters[name] = self.unsharded

    def to_sharded(self):
        """Have the module use the part."""
        for module, name in self.owners:
            module._parameters[name] = self.sharded

    def write_back(self):
        """Take what the whole is now into the part."""
        whole = self.buffer.view(-1)[: math.prod(self.shape)].view(self.shape)
        size, start = Shard.local_shard_size_and_offset(
            self.shape[self.dim], self.shard_mesh.size, self.shard_mesh.rank
        )
        part = self.padded.narrow(self.dim, 0, size)
        part.copy_(whole.narrow(self.dim, start, size))

    # -- gradients --------------------------------------------------------------------

    def gradient(self):
        """The gradient of the whole, which is taken from it; None where there is none."""
        grad = None if self.unsharded is None else self.unsharded.grad
        if grad is None:
            return None
        self.unsharded.grad = None
        if isinstance(grad, DTensor):
            placements = self.inner_spec.placements
            if grad.placements != placements:
                grad = grad.redistribute(placements=placements)
            grad = grad.to_local()
        return grad.to(self.policy.reduce_dtype or grad.dtype)

    def reduce_input(self, grad):
        """A gradient of the whole with a row for each process.

        Args:
            grad: the gradient.
        """
        size = self.shard_mesh.size
        if self.dim:
            grad = rl.cat([each.unsqueeze(0) for each in grad.chunk(size, self.dim)])
            return grad.reshape(size, -1)
        missing = self.rows * size - self.shape[0]
        if missing:
            grad = rl.cat([grad, grad.new_zeros((missing, *self.shape[1:]))])
        return grad.reshape(size, -1)

    def accumulate(self, flat):
        """Add the gradient of this process's part to what there is.

        Args:
            flat: its elements.
        """
        sizes = list(self.shape)
        sizes[self.dim] = self.rows
        part = self.sharded._local_tensor
        grad = flat.to(self.dtype).view(sizes).narrow(self.dim, 0, part.shape[self.dim])
        if self.sharded.grad is not None:
            self.sharded.grad._local_tensor.add_(grad)
        else:
            self.sharded.grad = DTensor(grad, self.spec)
