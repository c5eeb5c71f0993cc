"""Files of PyTorch's decomposed programs without their tokens.

PyTorch threads a token through each step that has an effect beside its results, so that no
pass exchanges two of them: ``token, *results = with_effects(token, operator, *args)``. Here
the order of steps is that order, and the operator is the step.
"""

_WITH_EFFECTS = "torch.ops.higher_order.with_effects"


def without_tokens(module):
    """Takes tokens out of the description of a graph that a file has, in place.

    Args:
        module: its ``graph_module``, as JSON has it.
    """
    signature, graph = module["signature"], module["graph"]
    for side in ("input", "output"):
        specs, values = signature[f"{side}_specs"], graph[f"{side}s"]
        kept = [at for at, one in enumerate(specs) if "token" not in one]
        if len(kept) < len(specs):
            signature[f"{side}_specs"] = [specs[at] for at in kept]
            graph[f"{side}s"] = [values[at] for at in kept]
    for node in graph["nodes"]:
        if node["target"] == _WITH_EFFECTS:
            _, operator, *arguments = node["inputs"]
            results = node["outputs"][1:]
            node["target"] = operator["arg"]["as_operator"]
            node["inputs"] = arguments
            node["outputs"] = [one for one in results if "as_none" not in one]
