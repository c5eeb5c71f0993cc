"""Processes in rows, columns and more dimensions, with a group along each."""

import math

import rushlight as rl
from rushlight.distributed.subgroups import new_group
from rushlight.distributed.world import (
    get_rank,
    get_world_size,
    init_process_group,
    is_initialized,
    world,
)

__all__ = ["DeviceMesh", "current_mesh", "init_device_mesh"]
_entered: list = []  # meshes of the `with` blocks that the program is in


def current_mesh():
    """The mesh of the innermost ``with`` block.

    Raises:
        RuntimeError: the program is in none.
    """
    if not _entered:
        raise RuntimeError("No device mesh is currently active!")
    return _entered[-1]


class DeviceMesh:
    """Processes in rows, columns and more dimensions, with a group along each.

    Args:
        device_type: ``cpu``, or the devices that tensors are on.
        mesh: the global ranks, as a tensor or nested lists.
        mesh_dim_names: a name for each dimension.
        backend_override: without effect on the host.
        _init_backend: whether to make the groups.

    Every process makes the mesh with the same arguments.
    """

    def __init__(
        self,
        device_type,
        mesh=None,
        *,
        mesh_dim_names=None,
        backend_override=None,
        _init_backend=True,
        _rank=None,
    ):
        if mesh is None:
            raise TypeError("DeviceMesh: mesh must be given: the global ranks")
        self.device_type = device_type
        self.mesh = rl.as_tensor(mesh, dtype=rl.int32).detach().cpu()
        if mesh_dim_names is not None and len(mesh_dim_names) != self.mesh.dim():
            raise RuntimeError(
                f"mesh_dim_names has {len(mesh_dim_names)} names for a mesh of "
                f"{self.mesh.dim()} dimensions"
            )
        self.mesh_dim_names = None if mesh_dim_names is None else tuple(mesh_dim_names)
        self._groups, self._root, self._flat = [], None, {}
        self._hash = self._coordinate = None
        if not is_initialized():
            init_process_group()
        self._joined = world.joined  # groups of processes that have left are others
        self._check()
        if _init_backend:
            self._groups = [self._group_along(dim) for dim in range(self.ndim)]

    def _check(self):
        ranks = self.mesh.flatten().tolist()
        if len(set(ranks)) != len(ranks):
            raise RuntimeError(f"mesh: a rank is in it twice: {self.mesh.tolist()}")
        if ranks and max(ranks) >= get_world_size():
            raise RuntimeError(
                f"Mesh should not be bigger than default world size {get_world_size()}, "
                f"but found {len(ranks)} ranks!"
            )

    def _group_along(self, dim):
        """The group of those that differ from this process in one dimension alone."""
        whole = self.ndim == 1 and self.mesh.numel() == get_world_size()
        if whole and self.mesh.tolist() == list(range(get_world_size())):
            return world.default
        own, rank = None, get_rank()
        rows = self.mesh.swapdims(-1, dim).reshape(-1, self.mesh.shape[dim])
        for ranks in rows.tolist():
            name = self.mesh_dim_names[dim] if self.mesh_dim_names else f"dim_{dim}"
            made = new_group(ranks, group_desc=f"mesh_{name}", sort_ranks=False)
            if rank in ranks:
                own = made
        return own

    @classmethod
    def from_group(cls, group, device_type, mesh=None, *, mesh_dim_names=None):
        """A mesh over groups that are there.

        Args:
            group: a group, or a list of one for each dimension.
            device_type: the devices that tensors are on.
            mesh: the global ranks, where there are several groups.
            mesh_dim_names: a name for each dimension.
        """
        groups = group if isinstance(group, list) else [group]
        if mesh is None:
            if len(groups) > 1:
                raise ValueError("Must pass mesh if passing multiple ProcessGroups")
            mesh = world.membership(groups[0]).ranks
        made = cls(
            device_type, mesh, mesh_dim_names=mesh_dim_names, _init_backend=False
        )
        if made.ndim != len(groups):
            raise ValueError("mesh must have as many dimensions as there are groups")
        made._groups = groups
        return made

    @property
    def ndim(self):
        """The number of dimensions."""
        return self.mesh.dim()

    @property
    def shape(self):
        """The number of processes in each dimension."""
        return tuple(self.mesh.shape)

    def size(self, mesh_dim=None):
        """The number of processes, in all or in one dimension.

        Args:
            mesh_dim: the dimension.
        """
        if mesh_dim is None:
            return self.mesh.numel()
        return self.mesh.shape[mesh_dim]

    def _dim(self, mesh_dim, purpose):
        if mesh_dim is None:
            if self.ndim != 1:
                raise RuntimeError(
                    f"Found the DeviceMesh have {self.ndim} dimensions\n  remedy: "
                    f"{purpose}: name one of them with mesh_dim"
                )
            return 0
        if isinstance(mesh_dim, str):
            if mesh_dim not in (self.mesh_dim_names or ()):
                raise KeyError(
                    f"Mesh dimension '{mesh_dim}' does not exist. Available mesh "
                    f"dimensions are: mesh_dim_names={self.mesh_dim_names}"
                )
            return self.mesh_dim_names.index(mesh_dim)
        return mesh_dim

    def get_group(self, mesh_dim=None):
        """The group along a dimension that this process is in.

        Args:
            mesh_dim: its number or name; it may be left out where there is one.
        """
        if not self._groups:
            raise RuntimeError("DeviceMesh process groups not initialized!")
        return self._groups[self._dim(mesh_dim, "get_group")]

    def get_all_groups(self):
        """The group along each dimension."""
        return [self.get_group(dim) for dim in range(self.ndim)]

    def get_rank(self):
        """This process's rank among all."""
        return get_rank()

    def get_local_rank(self, mesh_dim=None):
        """This process's rank in the group along a dimension.

        Args:
            mesh_dim: its number or name; it may be left out where there is one.
        """
        return get_rank(self.get_group(mesh_dim))

    def get_coordinate(self):
        """Where this process is, a number for each dimension; None where it is not."""
        if self._coordinate is None:
            found = (self.mesh == get_rank()).nonzero().tolist()
            self._coordinate = tuple(found[0]) if found else ()
        return list(self._coordinate) if self._coordinate else None

    def __getitem__(self, mesh_dim_names):
        """The part of the mesh, through this process, along some dimensions."""
        names = mesh_dim_names
        names = (names,) if isinstance(names, str) else tuple(names)
        if not self.mesh_dim_names:
            raise RuntimeError("Cannot slice a DeviceMesh without mesh_dim_names!")
        if len(names) == 1 and names[0] in self._flat:
            return self._flat[names[0]]
        dims = [self._dim(name, "slice") for name in names]
        if names == self.mesh_dim_names:
            return self
        place = tuple(
            slice(None) if dim in dims else at
            for dim, at in enumerate(self.get_coordinate())
        )
        kept = sorted(dims)
        part = self.mesh[place].permute([kept.index(dim) for dim in dims])
        made = DeviceMesh(
            self.device_type, part, mesh_dim_names=names, _init_backend=False
        )
        made._groups = [self._groups[dim] for dim in dims]
        made._root = self._root or self
        return made

    def _flatten(self, mesh_dim_name=None):
        """The processes of the mesh in one dimension."""
        name = mesh_dim_name or "_".join(self.mesh_dim_names or ("flat",))
        root = self._root or self
        if name in root._flat:
            return root._flat[name]
        made = DeviceMesh(
            self.device_type,
            self.mesh.flatten(),
            mesh_dim_names=(name,),
            _init_backend=False,
        )
        made._groups, made._root = [self._flat_group(root)], root
        root._flat[name] = made
        return made

    def _flat_group(self, root):
        """The group of this part, which every process makes for every part."""
        if root is self:
            ranks = self.mesh.flatten().tolist()
            return new_group(ranks, sort_ranks=False)
        dims = [root.mesh_dim_names.index(name) for name in self.mesh_dim_names]
        rest = [dim for dim in range(root.ndim) if dim not in dims]
        rows = root.mesh.permute(rest + dims).reshape(-1, self.size())
        own = None
        for ranks in rows.tolist():
            made = new_group(ranks, sort_ranks=False)
            own = made if get_rank() in ranks else own
        return own

    def __enter__(self):
        _entered.append(self)
        return self

    def __exit__(self, *raised):
        _entered.pop()

    def __eq__(self, other):
        if self is other:
            return True
        if not isinstance(other, DeviceMesh):
            return NotImplemented
        return (
            self.device_type == other.device_type
            and self._joined == other._joined
            and self.mesh.tolist() == other.mesh.tolist()
            and self.mesh_dim_names == other.mesh_dim_names
        )

    def __hash__(self):
        if self._hash is None:
            ranks = tuple(self.mesh.flatten().tolist())
            facts = (
                self.device_type,
                self.shape,
                ranks,
                self.mesh_dim_names,
                self._joined,
            )
            self._hash = hash(facts)
        return self._hash

    def __repr__(self):
        names = self.mesh_dim_names
        sizes = self.shape
        if names is not None:
            pairs = ", ".join(f"{n}={s}" for n, s in zip(names, sizes))
            return (
                f"DeviceMesh(({pairs}), '{self.device_type}', stride={self._strides()})"
            )
        return f"DeviceMesh({sizes}, '{self.device_type}', stride={self._strides()})"

    def _strides(self):
        return tuple(math.prod(self.shape[dim + 1 :]) for dim in range(self.ndim))


def init_device_mesh(
    device_type, mesh_shape, *, mesh_dim_names=None, backend_override=None
):
    """Put all processes in rows, columns and more dimensions, in order of their ranks.

    Args:
        device_type: ``cpu``, or the devices that tensors are on.
        mesh_shape: the number of processes in each dimension.
        mesh_dim_names: a name for each.
        backend_override: without effect on the host.

    Raises:
        RuntimeError: names and dimensions differ in number, or a name comes twice.
    """
    if mesh_dim_names is not None:
        if len(set(mesh_dim_names)) != len(mesh_dim_names):
            raise RuntimeError(
                "Each mesh_dim_name must be unique.",
                f"Found repeated mesh_dim_name in mesh_dim_names {mesh_dim_names}",
            )
        if len(mesh_shape) != len(mesh_dim_names):
            raise RuntimeError(
                "mesh_shape and mesh_dim_names should have same length!",
                f"Found len(mesh_dim_names): {len(mesh_dim_names)} and "
                f"len(mesh_shape):{len(mesh_shape)}.",
            )
    if device_type and not device_type.isalpha():
        raise RuntimeError(
            f"Device type with index is not supported but got {device_type}. "
            "If you maintained a 'torch.device' object, it's recommended to pass in "
            "'device.type'."
        )
    ranks = rl.arange(math.prod(mesh_shape), dtype=rl.int32).view(tuple(mesh_shape))
    return DeviceMesh(device_type, ranks, mesh_dim_names=mesh_dim_names)
