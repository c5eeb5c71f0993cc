"""Random arguments for what is measured: sizes, layouts and tensors from a few rules."""

import math

import numpy

import rushlight


class ParameterAlias:
    """Stands for the value that another parameter has been given."""

    def __init__(self, alias_to):
        self.alias_to = alias_to

    def __repr__(self):
        return f"ParameterAlias[alias_to: {self.alias_to}]"


class FuzzedParameter:
    """A number drawn at random.

    Args:
        name: what it is called.
        minval, maxval: its bounds, themselves among the values.
        distribution: ``"uniform"``, ``"loguniform"``, or values with their probabilities.
        strict: draw once only, however often other parameters are refused.

    Raises:
        AssertionError: the bounds are missing, or go with a table of values.
    """

    def __init__(self, name, minval=None, maxval=None, distribution=None, strict=False):
        self._name, self.strict = name, strict
        self._minval, self._maxval, self._distribution = minval, maxval, distribution
        if isinstance(distribution, dict):
            if minval is not None or maxval is not None:
                raise AssertionError("bounds do not go with a table of values")
            total = sum(distribution.values())
            if abs(total - 1) > 1e-7:
                raise AssertionError("Distribution is not normalized")
        elif distribution not in ("uniform", "loguniform"):
            raise AssertionError(f"Unknown distribution: {distribution}")
        elif minval is None or maxval is None:
            raise AssertionError(f"{distribution} needs minval and maxval")

    @property
    def name(self):
        """What it is called."""
        return self._name

    def sample(self, state):
        """A value, drawn from NumPy's ``state``."""
        if isinstance(self._distribution, dict):
            values = tuple(self._distribution)
            chances = tuple(self._distribution.values())
            return values[state.choice(numpy.arange(len(values)), p=chances)]
        whole = isinstance(self._minval, int) and isinstance(self._maxval, int)
        if self._distribution == "uniform":
            if whole:
                return int(state.randint(self._minval, self._maxval + 1))
            return state.uniform(self._minval, self._maxval)
        drawn = 2 ** state.uniform(math.log2(self._minval), math.log2(self._maxval))
        drawn = int(drawn) if whole else drawn
        return min(max(drawn, self._minval), self._maxval)


def _sizes(values, dim, params):
    """So many numbers: parameters by their names, ones where none is said."""
    found = tuple(params.get(value, value) for value in values)[:dim]
    return found + (1,) * (dim - len(found))


class _Fuzzed:
    """What tensors of both layouts share: a name, sizes, and bounds on their product."""

    def __init__(
        self, name, size, min_elements, max_elements, dim_parameter, dtype, cuda
    ):
        self._name, self._size, self._dim_parameter = name, size, dim_parameter
        self._min_elements, self._max_elements = min_elements, max_elements
        self._dtype, self._cuda = dtype, cuda

    @property
    def name(self):
        """What it is called."""
        return self._name

    def _dim(self, params):
        return params[self._dim_parameter] if self._dim_parameter else len(self._size)

    def _fits(self, params):
        count = math.prod(_sizes(self._size, self._dim(params), params))
        low = 0 if self._min_elements is None else self._min_elements
        high = math.inf if self._max_elements is None else self._max_elements
        return low <= count <= high


class FuzzedTensor(_Fuzzed):
    """A dense tensor of random size and layout.

    Args:
        name: what it is called.
        size: numbers, or names of parameters.
        steps: of these every so many-th element is taken along each dimension.
        probability_contiguous: how likely the dimensions lie in memory in their order.
        min_elements, max_elements, max_allocation_bytes: bounds that parameters must keep.
        dim_parameter: the parameter that says how many of the sizes count.
        roll_parameter: the parameter that says how far dimensions are turned round.
        dtype: of the elements.
        cuda: put it on a GPU.
        tensor_constructor: called with the size, the dtype and the parameters.
    """

    def __init__(
        self,
        name,
        size,
        steps=None,
        probability_contiguous=0.5,
        min_elements=None,
        max_elements=None,
        max_allocation_bytes=None,
        dim_parameter=None,
        roll_parameter=None,
        dtype=rushlight.float32,
        cuda=False,
        tensor_constructor=None,
    ):
        super().__init__(
            name, size, min_elements, max_elements, dim_parameter, dtype, cuda
        )
        self._steps = steps or ()
        self._probability_contiguous = probability_contiguous
        self._max_allocation_bytes = max_allocation_bytes
        self._roll_parameter = roll_parameter
        self._constructor = tensor_constructor or self.default_tensor_constructor

    @staticmethod
    def default_tensor_constructor(size, dtype, **kwargs):
        """Numbers between 0 and 1, or whole ones from 1 to 126."""
        if dtype.is_floating_point or dtype.is_complex:
            return rushlight.rand(size=size, dtype=dtype)
        return rushlight.randint(1, 127, size=size, dtype=dtype)

    def _layout(self, params):
        dim = self._dim(params)
        size = _sizes(self._size, dim, params)
        steps = _sizes(self._steps, dim, params)
        return size, steps, tuple(a * b for a, b in zip(size, steps, strict=True))

    def satisfies_constraints(self, params):
        """Whether parameters make a tensor within the bounds."""
        _, _, memory = self._layout(params)
        limit = self._max_allocation_bytes
        if limit is not None and math.prod(memory) * self._dtype.itemsize > limit:
            return False
        return self._fits(params)

    def _make_tensor(self, params, state):
        size, steps, memory = self._layout(params)
        raw = self._constructor(size=memory, dtype=self._dtype, **params)
        if self._cuda:
            raw = raw.cuda()
        order = numpy.arange(len(size))
        if state.rand() > self._probability_contiguous:
            while len(size) > 1 and numpy.all(order == numpy.arange(len(size))):
                order = state.permutation(raw.dim())
            raw = raw.permute(tuple(order.tolist())).contiguous()
            raw = raw.permute(tuple(numpy.argsort(order).tolist()))
        cut = tuple(slice(0, n * s, s) for n, s in zip(size, steps, strict=True))
        made = raw[cut]
        if self._roll_parameter is not None:
            shift = params[self._roll_parameter]
            dims = [*range(made.ndim)]
            made = made.permute([*dims[shift:], *dims[:shift]])
        return made, {
            "numel": int(made.numel()),
            "order": order,
            "steps": steps,
            "is_contiguous": made.is_contiguous(),
            "dtype": str(self._dtype),
        }


class FuzzedSparseTensor(_Fuzzed):
    """A tensor of coordinates and values, both random.

    Args:
        name: what it is called.
        size: numbers, or names of parameters.
        min_elements, max_elements: bounds that parameters must keep.
        dim_parameter: the parameter that says how many of the sizes count.
        sparse_dim: the parameter that says how many dimensions have coordinates.
        nnz: the parameter that says how many coordinates there are.
        density: the parameter that says what part of the elements they are.
        coalesced: the parameter that says whether each comes once, in order.
        dtype: of the values.
        cuda: put it on a GPU.
    """

    def __init__(
        self,
        name,
        size,
        min_elements=None,
        max_elements=None,
        dim_parameter=None,
        sparse_dim=None,
        nnz=None,
        density=None,
        coalesced=None,
        dtype=rushlight.float32,
        cuda=False,
    ):
        super().__init__(
            name, size, min_elements, max_elements, dim_parameter, dtype, cuda
        )
        self._sparse_dim, self._nnz = sparse_dim, nnz
        self._density, self._coalesced = density, coalesced

    default_tensor_constructor = staticmethod(FuzzedTensor.default_tensor_constructor)

    @staticmethod
    def sparse_tensor_constructor(size, dtype, sparse_dim, nnz, is_coalesced):
        """So many random coordinates with random values.

        Raises:
            ValueError: the size is not one of tuple or number.
        """
        size = (size,) * sparse_dim if isinstance(size, int) else tuple(size)
        make = FuzzedTensor.default_tensor_constructor
        values = make((nnz, *size[sparse_dim:]), dtype)
        bounds = rushlight.tensor(size[:sparse_dim]).unsqueeze(1)
        positions = (rushlight.rand(sparse_dim, nnz) * bounds).to(rushlight.int64)
        made = rushlight.sparse_coo_tensor(positions, values, size)
        return made.coalesce() if is_coalesced else made

    def satisfies_constraints(self, params):
        """Whether parameters make a tensor within the bounds."""
        return self._fits(params)

    def _make_tensor(self, params, state):
        size = _sizes(self._size, self._dim(params), params)
        density = params["density"]
        count = math.ceil(math.prod(size) * density)
        if self._nnz is not None and self._nnz in params:
            count = params[self._nnz]
        coalesced, sparse_dim = params["coalesced"], params["sparse_dim"]
        sparse_dim = min(sparse_dim, len(size))
        made = self.sparse_tensor_constructor(
            size, self._dtype, sparse_dim, count, coalesced
        )
        if self._cuda:
            made = made.cuda()
        return made, {
            "numel": int(made.numel()),
            "shape": made.size(),
            "is_coalesced": made.is_coalesced(),
            "density": density,
            "sparsity": 1.0 - density,
            "sparse_dim": made.sparse_dim(),
            "dense_dim": made.dense_dim(),
            "is_hybrid": made.dense_dim() > 0,
            "dtype": str(self._dtype),
        }


def _flat(values):
    flat = []
    for value in values:
        flat += value if isinstance(value, (list, tuple)) else [value]
    return flat


class Fuzzer:
    """Draws parameters and tensors by them, the same for the same seed.

    Args:
        parameters: `FuzzedParameter` objects, in lists too.
        tensors: `FuzzedTensor` objects, in lists too.
        constraints: functions of the parameters that say whether they will do.
        seed: where NumPy's random numbers start.

    Raises:
        ValueError: names come twice.

    >>> n = FuzzedParameter("n", 2, 8, "uniform")
    >>> fuzzer = Fuzzer([n], [FuzzedTensor("x", ("n", 3))], seed=0)
    >>> [(params["n"], tensors["x"].shape[0]) for tensors, _, params in fuzzer.take(2)]
    [(7, 7), (6, 6)]
    """

    def __init__(self, parameters, tensors, constraints=None, seed=None):
        if seed is None:
            limits = 0, 2**32 - 1
            seed = int(numpy.random.RandomState().randint(*limits, dtype=numpy.int64))
        self._seed = seed
        self._parameters, self._tensors = _flat(parameters), _flat(tensors)
        self._constraints = constraints or ()
        names = [one.name for one in (*self._parameters, *self._tensors)]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"names come twice: {', '.join(twice)}")
        self._drawn = self._refused = 0

    @property
    def rejection_rate(self):
        """The part of the drawn parameters that would not do; None before the first."""
        return self._refused / self._drawn if self._drawn else 0

    def take(self, n):
        """Yield ``n`` times tensors, their properties, and the parameters."""
        state = numpy.random.RandomState(self._seed)
        state.rand()  # as PyTorch's stream begins
        for _ in range(n):
            params = self._params(state)
            tensors, properties = {}, {}
            for one in self._tensors:
                made = one._make_tensor(params, state)
                tensors[one.name], properties[one.name] = made
            yield tensors, properties, params

    def _params(self, state):
        """Parameters that will do.

        Raises:
            ValueError: a thousand have not.
        """
        kept: dict = {}
        for _ in range(1000):
            found = {}
            for one in self._parameters:
                if one.strict and one.name in kept:
                    found[one.name] = kept[one.name]
                else:
                    found[one.name] = kept[one.name] = one.sample(state)
            for name, value in found.items():
                while isinstance(value, ParameterAlias):
                    value = found[value.alias_to]
                found[name] = value
            self._drawn += 1
            if all(f(found) for f in self._constraints) and all(
                one.satisfies_constraints(found) for one in self._tensors
            ):
                return found
            self._refused += 1
        raise ValueError("Failed to generate a set of valid parameters.")
