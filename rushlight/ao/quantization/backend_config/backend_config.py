"""Patterns of operators that a backend computes with integers, each with its types."""

from dataclasses import dataclass
from enum import Enum

from rushlight.core.dtype import DType

__all__ = [
    "BackendConfig",
    "BackendPatternConfig",
    "DTypeConfig",
    "DTypeWithConstraints",
    "ObservationType",
]


class ObservationType(Enum):
    """How a pattern's results are observed: alone, as what comes in is, or not at all."""

    OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT = 0
    OUTPUT_SHARE_OBSERVER_WITH_INPUT = 1
    INPUT_OUTPUT_NOT_OBSERVED = 2


@dataclass
class DTypeWithConstraints:
    """A type, and what its integers, scale and zero point have to be.

    Args:
        dtype: the type.
        quant_min_lower_bound, quant_max_upper_bound: bounds of the integers.
        scale_min_lower_bound, scale_max_upper_bound: bounds of the scale.
        scale_exact_match, zero_point_exact_match: the scale and zero point themselves.
    """

    dtype: DType | None = None
    quant_min_lower_bound: float | None = None
    quant_max_upper_bound: float | None = None
    scale_min_lower_bound: float | None = None
    scale_max_upper_bound: float | None = None
    scale_exact_match: float | None = None
    zero_point_exact_match: int | None = None


def _constrained(dtype):
    if isinstance(dtype, DTypeWithConstraints):
        return dtype
    return DTypeWithConstraints(dtype)


class DTypeConfig:
    """Types that a pattern takes and gives, for one way of computing it.

    Args:
        input_dtype, output_dtype, weight_dtype: types, or `DTypeWithConstraints`.
        bias_dtype: a type.
        is_dynamic: whether inputs are quantized as they come.

    >>> import rushlight as rl
    >>> DTypeConfig(rl.quint8, rl.quint8, weight_dtype=rl.qint8).input_dtype
    rushlight.quint8
    """

    def __init__(
        self, input_dtype=None, output_dtype=None, weight_dtype=None, bias_dtype=None,
        is_dynamic=None,
    ):  # fmt: skip
        self.input_dtype_with_constraints = _constrained(input_dtype)
        self.output_dtype_with_constraints = _constrained(output_dtype)
        self.weight_dtype_with_constraints = _constrained(weight_dtype)
        self.bias_dtype, self.is_dynamic = bias_dtype, is_dynamic

    input_dtype = property(lambda self: self.input_dtype_with_constraints.dtype)
    output_dtype = property(lambda self: self.output_dtype_with_constraints.dtype)
    weight_dtype = property(lambda self: self.weight_dtype_with_constraints.dtype)

    def __eq__(self, other):
        return type(self) is type(other) and vars(self) == vars(other)

    __hash__ = None

    def __repr__(self):
        inside = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"DTypeConfig({inside})"

    @classmethod
    def from_dict(cls, settings):
        """The same of a dictionary.

        Raises:
            ValueError: what is given as a type is none.
        """
        for name in ("input_dtype", "output_dtype", "weight_dtype"):
            given = settings.get(name)
            if not isinstance(given, (DType, DTypeWithConstraints, type(None))):
                raise ValueError(
                    f"Expected {name} to be a rushlight.dtype or DTypeWithConstraints"
                )
        names = "input_dtype output_dtype weight_dtype bias_dtype is_dynamic".split()
        return cls(*(settings.get(name) for name in names))

    def to_dict(self):
        """The same as a dictionary, without what is not said."""
        found = {}
        for name, value in vars(self).items():
            said = value.dtype if isinstance(value, DTypeWithConstraints) else value
            if said is not None:
                found[name.removesuffix("_with_constraints")] = value
        return found


class BackendPatternConfig:
    """How one pattern is quantized: a module, a function, or a tuple of up to three.

    Args:
        pattern: the pattern.
    """

    # Attributes, the names that dictionaries have for them, and what they are by default.
    _KEYS = {
        "pattern": ("pattern", None),
        "observation_type": (
            "observation_type", ObservationType.OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT
        ),
        "dtype_configs": ("dtype_configs", []),
        "root_module": ("root_module", None),
        "qat_module": ("qat_module", None),
        "reference_quantized_module": ("reference_quantized_module_for_root", None),
        "fused_module": ("fused_module", None),
        "fuser_method": ("fuser_method", None),
        "_root_node_getter": ("root_node_getter", None),
        "_extra_inputs_getter": ("extra_inputs_getter", None),
        "_num_tensor_args_to_observation_type": (
            "num_tensor_args_to_observation_type", {}
        ),
        "_input_type_to_index": ("input_type_to_index", {}),
        "_pattern_complex_format": ("pattern_complex_format", None),
    }  # fmt: skip

    def __init__(self, pattern=None):
        for name, (_, default) in self._KEYS.items():
            setattr(self, name, type(default)() if default in ([], {}) else default)
        self.pattern = pattern

    def __repr__(self):
        said = {
            k: v for k, v in vars(self).items() if v is not None and v not in ([], {})
        }
        return f"BackendPatternConfig({said})"

    def _with(self, name, value):
        setattr(self, name, value)
        return self

    def set_pattern(self, pattern):
        """Says which pattern it is.

        Raises:
            ValueError: the pattern is said in nested tuples already.
        """
        if self._pattern_complex_format is not None:
            raise ValueError(_BOTH)
        return self._with("pattern", pattern)

    def _set_pattern_complex_format(self, pattern):
        """Says which pattern it is in nested tuples, the last operator first."""
        if self.pattern is not None:
            raise ValueError(_BOTH)
        return self._with("_pattern_complex_format", pattern)

    def add_dtype_config(self, dtype_config):
        """One way more of computing it."""
        self.dtype_configs.append(dtype_config)
        return self

    @classmethod
    def from_dict(cls, settings):
        """The same of a dictionary.

        Raises:
            ValueError: types are said by something that is no `DTypeConfig`.
        """
        found = cls()
        for name, (key, _) in cls._KEYS.items():
            setattr(found, name, settings.get(key, getattr(found, name)))
        found.dtype_configs = [_dtype_config(one) for one in found.dtype_configs]
        if None not in (found.pattern, found._pattern_complex_format):
            raise ValueError(_BOTH)
        return found

    def to_dict(self):
        """The same as a dictionary, without what is not said."""
        said = {
            key: getattr(self, name)
            for name, (key, default) in self._KEYS.items()
            if getattr(self, name) is not None and getattr(self, name) != {}
        }
        said["dtype_configs"] = [one.to_dict() for one in self.dtype_configs]
        return said


_BOTH = "Only one of 'pattern' or 'pattern_complex_format' can be set"


def _setter(attribute, says):
    def setter(self, value):
        return self._with(attribute, value)

    setter.__name__ = ("_set" if attribute.startswith("_") else "set_") + attribute
    setter.__qualname__ = f"BackendPatternConfig.{setter.__name__}"
    setter.__doc__ = f"Says {says}; itself."
    return setter


for _attribute, _says in {
    "observation_type": "how results are observed",
    "dtype_configs": "the ways of computing it",
    "root_module": "which module has the weights",
    "qat_module": "which module is trained in its place",
    "reference_quantized_module": "which module stands for the root after conversion",
    "fused_module": "which module the pattern becomes",
    "fuser_method": "the function that makes one module of several",
    "_root_node_getter": "how the root is found among the pattern's nodes",
    "_extra_inputs_getter": "how inputs beside the root's are found",
    "_num_tensor_args_to_observation_type": "how results of so many tensors are observed",
    "_input_type_to_index": "which arguments are weight and bias",
}.items():
    _made = _setter(_attribute, _says)
    setattr(BackendPatternConfig, _made.__name__, _made)


def _dtype_config(given):
    if isinstance(given, DTypeConfig):
        return given
    if isinstance(given, dict):
        return DTypeConfig.from_dict(given)
    raise ValueError(
        "Expected a list of DTypeConfigs in "
        f"backend_pattern_config_dict[\"dtype_configs\"], got '{type(given)}'"
    )


class BackendConfig:
    """The patterns that a backend computes with integers.

    Args:
        name: the backend's name.

    >>> import rushlight as rl
    >>> BackendConfig("mine").set_backend_pattern_config(
    ...     BackendPatternConfig(rl.nn.Linear)
    ... ).to_dict()["configs"][0]["pattern"].__name__
    'Linear'
    """

    def __init__(self, name=""):
        self.name = name
        self._pattern_complex_format_to_config: dict = {}

    def __repr__(self):
        return f"BackendConfig({vars(self)})"

    def set_name(self, name):
        """Gives it another name; itself."""
        self.name = name
        return self

    def set_backend_pattern_config(self, config):
        """Adds a pattern, or replaces what was said of it; itself."""
        self._pattern_complex_format_to_config[nested(config)] = config
        return self

    def set_backend_pattern_configs(self, configs):
        """Adds several patterns; itself."""
        for config in configs:
            self.set_backend_pattern_config(config)
        return self

    @property
    def configs(self):
        """What is said of each pattern."""
        return list(self._pattern_complex_format_to_config.values())

    @classmethod
    def from_dict(cls, settings):
        """The same of a dictionary.

        Raises:
            ValueError: a pattern is said by something that is no dictionary.
        """
        found = cls(settings.get("name", ""))
        for config in settings.get("configs", []):
            if isinstance(config, dict):
                config = BackendPatternConfig.from_dict(config)
            if not isinstance(config, BackendPatternConfig):
                raise ValueError(
                    "Expected backend_config_dict['configs'] to be a dictionary"
                )
            found.set_backend_pattern_config(config)
        return found

    def to_dict(self):
        """The same as a dictionary."""
        return {"name": self.name, "configs": [one.to_dict() for one in self.configs]}


def nested(config):
    """A pattern in nested tuples, the last operator first: ``(relu, (norm, conv))``.

    Args:
        config: the pattern's `BackendPatternConfig`.

    Raises:
        ValueError: it has no pattern, or one of more than three operators.

    >>> nested(BackendPatternConfig(("conv", "norm", "relu")))
    ('relu', ('norm', 'conv'))
    """
    pattern = config.pattern
    if config._pattern_complex_format is not None:
        return config._pattern_complex_format
    if pattern is None:
        raise ValueError(
            "Either 'pattern' or 'pattern_complex_format' must be specified"
        )
    if not isinstance(pattern, tuple):
        return pattern
    if len(pattern) not in (2, 3):
        raise ValueError(f"Expected a tuple with 2 or 3 elements, got: {pattern}")
    *before, last = pattern
    return last, before[0] if len(before) == 1 else tuple(reversed(before))
