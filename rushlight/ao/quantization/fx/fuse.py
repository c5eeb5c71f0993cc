"""Modules that follow one another in a graph made one."""

from rushlight import nn
from rushlight.ao.quantization.fuse_modules import fuse_known_modules
from rushlight.ao.quantization.fuser_method_mappings import (
    _DEFAULT_OP_LIST_TO_FUSER_METHOD,
)
from rushlight.ao.quantization.fx.patterns import RELU, kind_of
from rushlight.ao.quantization.utils import getattr_from_fqn


def chains(graph, modules):
    """Lists of nodes that become one, each as long as possible."""
    taken = set()
    for node in graph.nodes:
        if node.op != "call_module" or node in taken:
            continue
        chain, kinds = [node], [type(modules[node.target])]
        best = None
        while len(chain[-1].users) == 1 and len(chain) < 3:
            user = next(iter(chain[-1].users))
            kind = kind_of(user, modules)
            kind = nn.ReLU if kind in RELU else kind
            chain, kinds = [*chain, user], [*kinds, kind]
            if tuple(kinds) in _DEFAULT_OP_LIST_TO_FUSER_METHOD:
                best = list(chain)
        if best is not None:
            taken.update(best)
            yield best


def fuse(model, is_qat):
    """Makes modules of a graph's module one, in place.

    Args:
        model: the `GraphModule`.
        is_qat: whether it is trained for quantization.
    """
    modules = dict(model.named_modules(remove_duplicate=False))
    for chain in list(chains(model.graph, modules)):
        found = [
            modules[node.target]
            if node.op == "call_module"
            else nn.ReLU().train(model.training)
            for node in chain
        ]
        fused = fuse_known_modules(found, is_qat)[0]
        set_module(model, chain[0].target, fused)
        chain[-1].replace_all_uses_with(chain[0])
        for node in reversed(chain[1:]):
            model.graph.erase_node(node)
    model.graph.lint()
    model.delete_all_unused_submodules()
    model.recompile()
    return model


def set_module(model, name, module):
    """Puts a module where another one is."""
    parent, _, last = name.rpartition(".")
    setattr(getattr_from_fqn(model, parent) if parent else model, last, module)
