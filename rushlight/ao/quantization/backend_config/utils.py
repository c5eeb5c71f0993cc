"""Tables that are read off a backend's patterns."""

__all__ = [
    "get_fused_module_classes",
    "get_fuser_method_mapping",
    "get_module_to_qat_module",
    "get_pattern_to_dtype_configs",
    "get_pattern_to_input_type_to_index",
    "get_qat_module_classes",
    "get_root_module_to_quantized_reference_module",
]


def _by_pattern(backend_config, attribute):
    known = backend_config._pattern_complex_format_to_config
    found = {pattern: getattr(config, attribute) for pattern, config in known.items()}
    return {pattern: value for pattern, value in found.items() if value}


def _classes(backend_config, attribute):
    found = (getattr(config, attribute) for config in backend_config.configs)
    return tuple({one for one in found if one is not None})


def get_pattern_to_dtype_configs(backend_config):
    """The types of each pattern."""
    known = backend_config._pattern_complex_format_to_config
    return {pattern: config.dtype_configs for pattern, config in known.items()}


def get_pattern_to_input_type_to_index(backend_config):
    """Which arguments of each pattern are weight and bias."""
    known = backend_config._pattern_complex_format_to_config
    return {pattern: config._input_type_to_index for pattern, config in known.items()}


def get_module_to_qat_module(backend_config):
    """The module that is trained in each pattern's place."""
    return _by_pattern(backend_config, "qat_module")


def get_fuser_method_mapping(backend_config):
    """The function that makes one module of each pattern."""
    return _by_pattern(backend_config, "fuser_method")


def get_qat_module_classes(backend_config):
    """Modules whose weights are rounded while they learn."""
    return _classes(backend_config, "qat_module")


def get_fused_module_classes(backend_config):
    """Modules that stand for several."""
    return _classes(backend_config, "fused_module")


def get_root_module_to_quantized_reference_module(backend_config):
    """The reference modules of modules that have weights."""
    return {
        config.root_module: config.reference_quantized_module
        for config in backend_config.configs
        if None not in (config.root_module, config.reference_quantized_module)
    }
