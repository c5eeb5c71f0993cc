"""Sums, products and joins as modules, so that they can be observed and quantized."""

import rushlight as rl
from rushlight import nn
from rushlight.ao.nn.quantized.common import load_parameters, save_parameters
from rushlight.core.tensor import Tensor


class FloatFunctional(nn.Module):
    """Sums, products and joins of numbers, whose results an observer sees.

    >>> f = FloatFunctional()
    >>> f.add(rl.tensor(1.0), rl.tensor(2.0))
    tensor(3.)
    """

    def __init__(self):
        super().__init__()
        self.activation_post_process = nn.Identity()

    def forward(self, x):
        """Refuses: its methods are called."""
        raise RuntimeError(
            "FloatFunctional is not intended to use the 'forward'. Please use the "
            "underlying operation"
        )

    def add(self, x, y):
        """The sum."""
        return self.activation_post_process(rl.add(x, y))

    def add_scalar(self, x, y: float):
        """The sum with a number; not observed."""
        return rl.add(x, y)

    def mul(self, x, y):
        """The product."""
        return self.activation_post_process(rl.mul(x, y))

    def mul_scalar(self, x, y: float):
        """The product with a number; not observed."""
        return rl.mul(x, y)

    def cat(self, x: list[Tensor], dim: int = 0):
        """Values one after another."""
        return self.activation_post_process(rl.cat(x, dim=dim))

    def add_relu(self, x, y):
        """The sum; what is below zero becomes zero."""
        return self.activation_post_process(nn.functional.relu(rl.add(x, y)))

    def matmul(self, x, y):
        """The product of matrices."""
        return self.activation_post_process(rl.matmul(x, y))


class FXFloatFunctional(nn.Module):
    """The same without observers: FX sees the operators themselves."""

    def forward(self, x):
        """Refuses: its methods are called."""
        raise RuntimeError(
            "FloatFunctional is not intended to use the 'forward'. Please use the "
            "underlying operation"
        )

    def add(self, x, y):
        """The sum."""
        return rl.add(x, y)

    def add_scalar(self, x, y):
        """The sum with a number."""
        return rl.add(x, y)

    def mul(self, x, y):
        """The product."""
        return rl.mul(x, y)

    def mul_scalar(self, x, y):
        """The product with a number."""
        return rl.mul(x, y)

    def cat(self, x, dim=0):
        """Values one after another."""
        return rl.cat(x, dim=dim)

    def add_relu(self, x, y):
        """The sum; what is below zero becomes zero."""
        return nn.functional.relu(rl.add(x, y))

    def matmul(self, x, y):
        """The product of matrices."""
        return rl.matmul(x, y)


class QFunctional(nn.Module):
    """Sums, products and joins of integers, in a scale that an observer found."""

    def __init__(self):
        super().__init__()
        self.scale, self.zero_point = 1.0, 0
        self.activation_post_process = nn.Identity()

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        save_parameters(self, destination, prefix)

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, *rest
    ):
        load_parameters(self, state_dict, prefix)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, False, missing_keys, *rest
        )

    def _get_name(self):
        return "QFunctional"

    def extra_repr(self):
        """Scale and zero point."""
        return f"scale={self.scale}, zero_point={self.zero_point}"

    def forward(self, x):
        """Refuses: its methods are called."""
        raise RuntimeError(
            "Functional is not intended to use the 'forward'. Please use the underlying "
            "operation"
        )

    def add(self, x, y):
        """The sum."""
        found = rl.ops.quantized.add(x, y, self.scale, self.zero_point)
        return self.activation_post_process(found)

    def add_scalar(self, x, y: float):
        """The sum with a number."""
        return self.activation_post_process(rl.ops.quantized.add_scalar(x, y))

    def mul(self, x, y):
        """The product."""
        found = rl.ops.quantized.mul(x, y, self.scale, self.zero_point)
        return self.activation_post_process(found)

    def mul_scalar(self, x, y: float):
        """The product with a number."""
        return self.activation_post_process(rl.ops.quantized.mul_scalar(x, y))

    def cat(self, x: list[Tensor], dim: int = 0):
        """Values one after another."""
        found = rl.ops.quantized.cat(x, dim, self.scale, self.zero_point)
        return self.activation_post_process(found)

    def add_relu(self, x, y):
        """The sum; what is below zero becomes zero."""
        found = rl.ops.quantized.add_relu(x, y, self.scale, self.zero_point)
        return self.activation_post_process(found)

    def matmul(self, x, y):
        """The product of matrices."""
        found = rl.ops.quantized.matmul(x, y, self.scale, self.zero_point)
        return self.activation_post_process(found)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """A module made of one that was observed.

        Raises:
            AssertionError: it is of another kind.
        """
        if type(mod) is not FloatFunctional:
            raise AssertionError(
                "QFunctional.from_float expects an instance of FloatFunctional"
            )
        scale, point = mod.activation_post_process.calculate_qparams()
        found = QFunctional()
        found.scale, found.zero_point = float(scale), int(point)
        return found
