"""Backends and layouts from outside: their tensors have memory that no kernel here sees."""

import pytest

import rushlight as rl
from rushlight.dispatch.keys import DispatchKey
from rushlight.dispatch.library import _scoped_library


class Shelf:
    """A device's memory: rows of bytes by number, and who has freed them."""

    def __init__(self):
        self.rows: dict = {}
        self.count = 0

    def put(self, values):
        self.count += 1
        self.rows[self.count] = bytearray(bytes(values.contiguous().untyped_storage()))
        return self.count


SHELF = Shelf()


class Remote(rl.Tensor):
    """A tensor whose elements lie on the shelf."""

    __torch_function__ = rl._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, values):
        return rl.Tensor._make_wrapper_subclass(
            cls, values.shape, dtype=values.dtype, device="privateuseone"
        )

    def __init__(self, values):
        self.row = SHELF.put(values)

    def __del__(self):
        SHELF.rows.pop(self.__dict__.get("row"), None)

    def fetch(self):
        """The elements, in memory that kernels read."""
        found = rl.frombuffer(SHELF.rows[self.row], dtype=self.dtype)
        return found.view(self.shape)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise NotImplementedError(f"the shelf has no kernel for {func}")


def test_a_backend_s_tensors_are_refused_where_it_has_no_kernel():
    x = Remote(rl.ones(2))
    assert x.device.type == "privateuseone" and x.data_ptr() == 0
    with pytest.raises(NotImplementedError, match="no kernel for aten.exp.default"):
        x.exp()


def test_a_backend_computes_in_memory_of_its_own():
    before = len(SHELF.rows)

    class Computing(Remote):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            def there(value):
                return value.fetch() if isinstance(value, Remote) else value

            result = func(*map(there, args), **(kwargs or {}))
            return cls(result) if isinstance(result, rl.Tensor) else result

    x = Computing(rl.arange(4.0))
    y = (x * 2 + x).sum()
    assert type(y) is Computing and y.fetch().item() == 18.0
    x.requires_grad_()
    (x * x).sum().backward()
    assert x.grad.fetch().tolist() == [0.0, 2.0, 4.0, 6.0]
    del x, y
    assert len(SHELF.rows) == before  # nothing is left on the shelf


def test_keys_of_outside_backends_are_reached_by_factories():
    seen = []
    with _scoped_library("shelf_test", "DEF") as library:
        library.define("make(int n, *, Device? device=None) -> Tensor")
        library.impl("make", lambda n, device: seen.append("host") or rl.ones(n), "CPU")
        library.impl(
            "make", lambda n, device: seen.append("shelf") or rl.ones(n), "PrivateUse1"
        )
        rl.ops.shelf_test.make(2)
        rl.ops.shelf_test.make(2, device="privateuseone")
    assert seen == ["host", "shelf"]
    assert DispatchKey.PrivateUse1 < DispatchKey.Python
