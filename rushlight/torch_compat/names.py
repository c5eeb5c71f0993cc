"""Which of Rushlight's modules stand for which of PyTorch's."""

from __future__ import annotations

# The release of PyTorch whose names and behaviour are Rushlight's.
VERSION = "2.13.0"

OURS = "rushlight"
THEIRS = "torch"

# Modules that PyTorch has under another name.
MOVED = {
    "rushlight.functorch": "functorch",
    "rushlight.lowrank": "torch._lowrank",
    "rushlight.operators.return_types": "torch.return_types",
    "rushlight.testing.comparison": "torch.testing._comparison",
    "rushlight.testing.creation": "torch.testing._creation",
}
FOUND = {theirs: ours for ours, theirs in MOVED.items()}

# What is Rushlight's alone, and keeps its name; modules inside of it too.
OWN = (
    "__main__",
    "_dynamo.explaining",
    "_dynamo.stance",
    "_explain",
    "_functions",
    "_generated",
    "_higher_order_ops.base",
    "_host_streams",
    "_inductor.options",
    "_lazy_exports",
    "_name_errors",
    "_profiling",
    "_removed_functions",
    "_runtime_flags",
    "_storage_methods",
    "_stubs",
    "_tensor_methods",
    "_typed_storage",
    "amp._older_names",
    "ao._operators",
    "ao.nn.intrinsic.fused",
    "ao.nn.quantized.activation",
    "ao.nn.quantized.common",
    "ao.nn.quantized.conv",
    "ao.nn.quantized.dynamic.conv",
    "ao.nn.quantized.dynamic.linear",
    "ao.nn.quantized.dynamic.rnn",
    "ao.nn.quantized.embedding",
    "ao.nn.quantized.functional_modules",
    "ao.nn.quantized.linear",
    "ao.quantization._histogram",
    "ao.quantization._observers",
    "ao.quantization.fx.patterns",
    "autograd._gradcheck_parts",
    "autograd._gradcheck_sparse",
    "autograd.anomaly",
    "autograd.dual",
    "autograd.dual_function",
    "autograd.engine",
    "autograd.errors",
    "autograd.hooks",
    "autograd.levels",
    "autograd.methods",
    "autograd.node",
    "autograd.outside",
    "autograd.record",
    "autograd.saved",
    "autograd.span_operators",
    "autograd.streams",
    "autograd.view_replay",
    "autograd.windows",
    "codegen",
    "core",
    "cuda._graphed",
    "cuda._graphs",
    "cuda._where",
    "datasets",
    "dispatch",
    "distributed.autograd.contexts",
    "distributed.checkpoint._codec",
    "distributed.checkpoint.filesystem_records",
    "distributed.coalescing",
    "distributed.collective_functions",
    "distributed.collectives",
    "distributed.data_parallel",
    "distributed.elastic.agent",
    "distributed.elastic.workers",
    "distributed.errors",
    "distributed.fsdp._fully_shard._fsdp_group",
    "distributed.object_collectives",
    "distributed.octet_collectives",
    "distributed.point_to_point",
    "distributed.process_group",
    "distributed.reducer",
    "distributed.reductions",
    "distributed.rpc._agent",
    "distributed.rpc._codec",
    "distributed.rpc._joining",
    "distributed.stores",
    "distributed.subgroups",
    "distributed.sync_batchnorm",
    "distributed.tensor._factories",
    "distributed.tensor._loss_rules",
    "distributed.tensor._op_call",
    "distributed.tensor._sharding_rules",
    "distributed.tensor._sharding_table",
    "distributed.tensor._view_rules",
    "distributed.transport",
    "distributed.work",
    "distributed.world",
    "distributions._centred",
    "distributions._halves",
    "distributions._transform",
    "distributions._vector_transforms",
    "export._archive",
    "export._compile",
    "export._constraints",
    "export._core",
    "export._decompose",
    "export._deserialize",
    "export._grad_mode",
    "export._library",
    "export._moving",
    "export._names",
    "export._planning",
    "export._registering",
    "export._results",
    "export._roots",
    "export._serialize",
    "export._sizes",
    "export._steps",
    "export.launch_recorder",
    "front",
    "func.",
    "functorch.compile",
    "fx._codegen",
    "fx._names",
    "fx.experimental.as_called",
    "fx.experimental.numbers",
    "fx.experimental.pre_dispatch",
    "graph",
    "inspection",
    "io",
    "ir",
    "jit._annotated",
    "jit._assignments",
    "jit._branches",
    "jit._builtin_names",
    "jit._callables",
    "jit._calls",
    "jit._conditions",
    "jit._emitter",
    "jit._execute",
    "jit._exits",
    "jit._expressions",
    "jit._failures",
    "jit._forms",
    "jit._inline",
    "jit._language_forms",
    "jit._loops",
    "jit._modules",
    "jit._names",
    "jit._numbers",
    "jit._print",
    "jit._read",
    "jit._runtime",
    "jit._scalar_operators",
    "jit._scalars",
    "jit._schemas",
    "jit._script_api",
    "jit._script_modules",
    "jit._sources",
    "jit._statements",
    "jit._sugar",
    "jit._tasks",
    "jit._texts",
    "jit._tracing",
    "jit._types",
    "jit._unit",
    "jit._write",
    "jit.forms",
    "jit.ir",
    "kernels",
    "legacy",
    "nn._functions",
    "nn.modules._backward_hook",
    "nn.modules._calling",
    "nn.modules._hooks",
    "nn.modules._margin_losses",
    "nn.modules._state",
    "nn.modules.attention",
    "onnx._export",
    "onnx._graph",
    "onnx._model",
    "onnx._operands",
    "onnx._optimize",
    "onnx._program",
    "onnx._registry",
    "onnx._state",
    "onnx._subgraphs",
    "onnx._symbolic",
    "onnx._translate",
    "onnx._types",
    "onnx.importing",
    "onnx.lowering",
    "operators",
    "ops.",
    "optim._combined",
    "optim._cycles",
    "optim._functional",
    "optim._rules",
    "optim._schedule",
    "profiler._modules",
    "profiler.execution_trace",
    "random.",
    "run",
    "runtime",
    "serialization.",
    "serve",
    "sparse.",
    "te",
    "tensor_expressions",
    "testing._opcheck",
    "testing.file_check",
    "torch_compat",
    "transforms",
    "utils._selective",
    "utils._settings",
    "utils._summary",
    "utils._swap",
    "utils.data._pipes",
    "utils.data.collate",
    "utils.data.datapipes.iter._kept",
    "utils.data.fetch",
    "utils.data.info",
    "utils.data.parallel",
    "utils.data.passes",
    "utils.data.threads",
    "utils.data.transport",
    "utils.data.worker",
    "utils.pictures",
    "utils.tensorboard.graphs",
    "utils.tensorboard.media",
)


def is_own(path):
    """Whether a module, by its path inside the package, has no place in PyTorch.

    >>> [is_own(path) for path in ("core.dtype", "nn.functional", "ops", "random.normal")]
    [True, False, False, True]
    """
    return any(
        path.startswith(name)
        if name.endswith(".")
        else path == name or path.startswith(name + ".")
        for name in OWN
    )


def theirs(name):
    """PyTorch's name for one of Rushlight's modules; None for those that it lacks.

    >>> theirs("rushlight.nn.init"), theirs("rushlight.core.dtype")
    ('torch.nn.init', None)
    """
    if name == OURS:
        return THEIRS
    if name in MOVED:
        return MOVED[name]
    path = name.removeprefix(OURS + ".")
    if path == name or is_own(path):
        return None
    return f"{THEIRS}.{path}"


def ours(name):
    """The module that stands for one of PyTorch's, whether or not it exists.

    >>> ours("torch.nn.init"), ours("torch.core.dtype")
    ('rushlight.nn.init', None)
    """
    if name == THEIRS:
        return OURS
    if name in FOUND:
        return FOUND[name]
    path = name.removeprefix(THEIRS + ".")
    if path == name or is_own(path):
        return None
    return f"{OURS}.{path}"


# Where PyTorch says that things are defined, for those that Rushlight defines elsewhere.
# Compiled types, which have to be renamed in memory, and classes alike.
HOMES = {
    "rushlight.core.tensor.Tensor": "torch.Tensor",
    "rushlight.core.dtype.DType": "torch.dtype",
    "rushlight.core.device.Device": "torch.device",
    "rushlight.random.generator.Generator": "torch._C.Generator",
    "rushlight.core.storage.Storage": "torch.storage.UntypedStorage",
    "rushlight.core.layout.Size": "torch.Size",
    "rushlight.core.layout.Layout": "torch.layout",
    "rushlight.core.layout.MemoryFormat": "torch.memory_format",
    "rushlight.core.dtype.finfo": "torch.finfo",
    "rushlight.core.dtype.iinfo": "torch.iinfo",
    "rushlight.nn.modules.attention.MultiheadAttention": (
        "torch.nn.modules.activation.MultiheadAttention"
    ),
    "rushlight.operators.linalg.linalg_checks.LinAlgError": "torch.linalg.LinAlgError",
    "rushlight.autograd.node.Node": "torch.autograd.graph.Node",
    "rushlight._dynamo.eval_frame.compile": "torch.compile",
    "rushlight._typed_storage.TypedStorage": "torch.storage.TypedStorage",
    "rushlight.autograd.anomaly.detect_anomaly": "torch.autograd.anomaly_mode.detect_anomaly",
    "rushlight.autograd.anomaly.set_detect_anomaly": (
        "torch.autograd.anomaly_mode.set_detect_anomaly"
    ),
}

# Modules of Rushlight's own whose definitions PyTorch has in another one; None where only
# what HOMES names is meant.
LENT: dict = {
    "rushlight._host_streams": "torch",
    "rushlight.cuda._graphs": "torch.cuda.graphs",
    "rushlight._runtime_flags": "torch",
    "rushlight.dispatch.torch_function": "torch.overrides",
    "rushlight.ir.sym_functions": "torch",
    "rushlight.operators.assertions": "torch",
    "rushlight.core.errors": "torch",
    "rushlight.nn.modules._hooks": "torch.nn.modules.module",
    "rushlight.nn.modules.attention": None,
    "rushlight.operators.linalg.linalg_checks": None,
    "rushlight.serialization._names": "torch.serialization",
    "rushlight.serialization._places": "torch.serialization",
    "rushlight.serialization._read": "torch.serialization",
    "rushlight.serialization._records": "torch",
    "rushlight.serialization._settings": "torch.serialization",
    "rushlight.serialization._write": "torch.serialization",
    "rushlight.utils.data.collate": "torch.utils.data._utils.collate",
}

# Public modules that hold what others define: the first that holds it names it.
FRONTS = (
    "rushlight.compiler",
    "rushlight._dynamo",
    "rushlight.func",
    "rushlight.optim.lr_scheduler",
    "rushlight.utils.data._utils.collate",
    "rushlight.utils.data",
    "rushlight.distributions.transforms",
    "rushlight.nn.functional",
    "rushlight.random",
    "rushlight.library",
    "rushlight.overrides",
    "rushlight.storage",
    "rushlight.autograd.graph",
    "rushlight.autograd",
    "rushlight",
)
