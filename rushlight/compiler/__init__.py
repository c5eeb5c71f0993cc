"""From tensor expressions in Python to machine code: language, loops, emitters.

PyTorch's ``torch.compiler`` has this name too; its functions are found here as well.
"""


def __getattr__(name):
    from importlib import import_module

    if name == "compile":
        return import_module("rushlight._dynamo.eval_frame").compile
    found = getattr(import_module("rushlight._dynamo.stance"), name, None)
    if found is None or name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return found
