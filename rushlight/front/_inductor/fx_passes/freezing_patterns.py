"""What is done to a graph whose weights stay what they are, by PyTorch's names."""

from rushlight._inductor.constant_folding import constant_fold
from rushlight._inductor.fx_passes.quantization import lower_quantized
from rushlight._inductor.pattern_matcher import (
    PatternMatcherPass,
    register_graph_pattern,
)

__all__ = ["freezing_passes", "pass_patterns", "register_freezing_graph_pattern"]

pass_patterns = [PatternMatcherPass() for _ in range(3)]


def freezing_passes(gm, aot_example_inputs):
    """Folds constants, applies registered patterns, and lowers quantized layers.

    Args:
        gm: the `GraphModule`, which is changed.
        aot_example_inputs: examples of its inputs.
    """
    constant_fold(gm)
    for patterns in pass_patterns:
        patterns.apply(gm.graph)
    lower_quantized(gm)


def register_freezing_graph_pattern(
    pattern, extra_check=lambda match: True, pass_number=0
):
    """Registers a function that is called where a pattern is found in a frozen graph.

    Args:
        pattern: see `rushlight._inductor.pattern_matcher`.
        extra_check: whether a match is one.
        pass_number: of the passes, which are applied in order.
    """
    while len(pass_patterns) <= pass_number:
        pass_patterns.append(PatternMatcherPass())
    return register_graph_pattern(
        pattern, extra_check=extra_check, pass_dict=pass_patterns[pass_number]
    )
