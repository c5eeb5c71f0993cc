"""Finds the examples in the docstrings of an installed PyTorch."""

import doctest
import importlib
import inspect
import re
import types
import warnings

NAMESPACES = """
torch torch.accelerator torch.amp torch.ao.quantization torch.autograd
torch.autograd.forward_ad torch.autograd.function torch.autograd.functional
torch.autograd.grad_mode torch.autograd.gradcheck torch.autograd.graph
torch.autograd.profiler torch.backends.opt_einsum torch.compiler torch.cpu torch.cuda
torch.distributions torch.distributions.constraints torch.distributions.transforms
torch.export torch.fft torch.func torch.futures torch.fx torch.fx.graph
torch.fx.interpreter torch.fx.node torch.fx.passes.shape_prop torch.fx.proxy torch.jit
torch.library torch.linalg torch.masked torch.monitor torch.multiprocessing
torch.nested torch.nn torch.nn.attention torch.nn.attention.bias
torch.nn.attention.flex_attention torch.nn.functional torch.nn.init
torch.nn.modules.lazy torch.nn.modules.module torch.nn.utils
torch.nn.utils.parametrizations torch.nn.utils.parametrize torch.nn.utils.prune
torch.nn.utils.rnn torch.nn.utils.stateless torch.optim torch.optim.lr_scheduler
torch.optim.swa_utils torch.overrides torch.package torch.profiler torch.quasirandom
torch.random torch.serialization torch.signal.windows torch.sparse torch.special
torch.storage torch.testing torch.types torch.utils._python_dispatch
torch.utils._pytree torch.utils.benchmark torch.utils.checkpoint torch.utils.data
torch.utils.dlpack torch.utils.flop_counter torch.utils.hooks
torch.utils.module_tracker torch.utils.tensorboard
""".split()
# What needs a device, a network or other processes, or says nothing that can be compared.
OTHER_THREAD = re.compile(
    r"cuda|\bdist\.|init_process_group|rpc|mp\.spawn|\bhub\.|while True|sys\.exit|onnx"
    r"|Pool\(|torch\.compile|num_workers=[1-9]|input\(|\.seed\(\)|torch\.(jit|export)\b"
)
UNMARKED = re.compile(r"^\s*>>> ?(.*(?:\n\s*\.\.\. ?.*)*)", re.MULTILINE)


def examples():
    """Pairs of a public name and the statements of its docstring's example."""
    warnings.simplefilter("ignore")
    seen = set()
    for namespace in NAMESPACES:
        module = importlib.import_module(namespace)
        for name, thing in [(namespace, module), *members(namespace, module)]:
            text = inspect.getattr_static(thing, "__doc__", None)
            text = text if isinstance(text, str) else getattr(thing, "__doc__", None)
            if not isinstance(text, str) or ">>>" not in text or text in seen:
                continue
            seen.add(text)
            statements = statements_of(text)
            if statements and not OTHER_THREAD.search("\n".join(statements)):
                yield name, statements


def members(namespace, module):
    """Functions, classes and methods that a module shows."""
    for key, thing in visible(module):
        if isinstance(thing, types.ModuleType):
            continue
        if not isinstance(thing, type):
            if callable(thing):
                yield f"{namespace}.{key}", thing
        elif str(getattr(thing, "__module__", "")).startswith("torch"):
            yield f"{namespace}.{key}", thing
            for name, method in visible(thing):
                yield f"{namespace}.{key}.{name}", method


def visible(thing):
    """What an object shows, by name; without what cannot be read."""
    for key in sorted(dir(thing)):
        if key.startswith("__") or key.endswith("Tensor") and key != "Tensor":
            continue
        try:
            yield key, getattr(thing, key)
        except (AttributeError, RuntimeError):
            continue


def statements_of(text):
    """The statements of a docstring's example, in order."""
    try:
        return [e.source for e in doctest.DocTestParser().get_examples(text)]
    except ValueError:  # an indentation that doctest doesn't take
        return [
            re.sub(r"\n\s*\.\.\. ?", "\n", match.group(1)) + "\n"
            for match in UNMARKED.finditer(text)
        ]
