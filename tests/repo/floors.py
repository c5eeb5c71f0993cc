"""The order of the package: a module imports its own floor or lower ones."""

from tests.repo.imports import PACKAGE, imports

# Lowest first; a module stands where the longest of these prefixes places it. Folders
# bear the names that they have; a floor's name says what they are to become.
FLOORS = {
    "core": """
        core utils._pytree utils._settings utils._swap utils.deterministic __future__
    """,
    "random": "random",
    "io": "io",
    "ir": "ir",
    "compiler": "codegen tensor_expressions",
    "kernels": "kernels",
    "runtime": "runtime",
    "dispatch": "dispatch utils._python_dispatch",
    "operators": "operators _generated _typed_storage kernels.fft",
    "autograd": "autograd func._batches func._gradients _generated.tables",
    "modules": """
        nn.parameter nn.modules.module nn.modules._calling nn.modules._state
        nn.modules._hooks nn.modules._backward_hook nn.modules.container
    """,
    "graph": """
        graph fx fx.passes.shape_prop fx.passes.split_module fx.passes.tools_common
        fx.passes.utils _fake_context _subclasses _higher_order_ops _inductor _dynamo.exc
    """,
    "front": """
        runtime.cpu.warm runtime.cuda.warm __root__ _dynamo _inductor.compile_fx
        _inductor.decomposition
        _inductor.package _inductor.utils _inductor.codecache _inductor.fx_passes
        _decomp _explain _compile
        _explain_rules _profiling
        _functions _host_streams _prims
        _lazy_exports _name_errors
        _removed_functions _runtime_flags _storage_methods _stubs _tensor_methods _value_types
        accelerator amp ao backends compiler cpu cuda datasets
        distributed distributions export fft front func functional futures hub jit
        library linalg
        lowrank masked monitor multiprocessing nested nn onnx ops optim overrides package profiler
        quantization quasirandom serialization serve signal sparse special te testing
        transforms utils
        torch_version version fx.passes fx.experimental.merge_matmul fx.experimental.optimization
        fx.experimental.meta_tracer fx.experimental.rewriter
        autograd.profiler autograd.profiler_util
    """,
    "torch_compat": """
        torch_compat __main__ inspection run distributed.run distributed.launch
        _C __config__ _export _functorch _jit_internal _library _logging _ops _prims_common
        _tensor_str _utils functorch
        mps mtia storage types xpu
    """,
}
PLACES = {
    prefix: (number, floor)
    for number, (floor, prefixes) in enumerate(FLOORS.items())
    for prefix in prefixes.split()
}


def floor_of(module):
    """The number and name of a module's floor; None where no prefix places it."""
    path = module.removeprefix(PACKAGE).lstrip(".") or "__root__"
    while path and path not in PLACES:
        path = path.rpartition(".")[0]
    return PLACES.get(path)


def is_passing(use):
    """Whether an import makes no module need another.

    A package's table of its own modules serves those who look there; what annotations
    alone name is never imported.
    """
    own = use.form == "string" and use.imported.startswith(use.importer + ".")
    return own or use.form == "type"


def arrows(uses=None):
    """Pairs of modules of which the first imports the second, in any form."""
    uses = imports() if uses is None else uses
    return {(u.importer, u.imported) for u in uses if not is_passing(u)}


def upward(pairs):
    """Arrows to a higher floor."""
    return {(a, b) for a, b in pairs if floor_of(b)[0] > floor_of(a)[0]}
