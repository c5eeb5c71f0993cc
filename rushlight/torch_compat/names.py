"""Which of Rushlight's modules stand for which of PyTorch's."""

from __future__ import annotations

import re

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
    "_decomp.registry",
    "_dynamo.explaining",
    "_functorch._joint",
    "_higher_order_ops.base",
    "_inductor._patterns",
    "_inductor._replacement",
    "_inductor.options",
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
    "ao.nn.quantized.reference.layers",
    "ao.nn.quantized.rnn",
    "ao.quantization.fx.patterns",
    "autograd.dual",
    "autograd.dual_function",
    "autograd.engine",
    "autograd.errors",
    "autograd.hooks",
    "autograd.levels",
    "autograd.methods",
    "autograd.node",
    "autograd.node_attributes",
    "autograd.outside",
    "autograd.record",
    "autograd.saved",
    "autograd.span_operators",
    "autograd.streams",
    "autograd.view_replay",
    "autograd.windows",
    "codegen",
    "core",
    "datasets",
    "dispatch",
    "distributed.autograd.contexts",
    "distributed.backends",
    "distributed.checkpoint.filesystem_records",
    "distributed.coalescing",
    "distributed.collective_functions",
    "distributed.collectives",
    "distributed.cost_model",
    "distributed.data_parallel",
    "distributed.device_work",
    "distributed.elastic.agent",
    "distributed.elastic.multiprocessing.entry",
    "distributed.elastic.rendezvous.errors",
    "distributed.elastic.rendezvous.rounds",
    "distributed.elastic.workers",
    "distributed.errors",
    "distributed.fsdp._fully_shard._fsdp_group",
    "distributed.nan_check",
    "distributed.object_collectives",
    "distributed.octet_collectives",
    "distributed.point_to_point",
    "distributed.process_group",
    "distributed.process_group_mpi",
    "distributed.process_group_nccl",
    "distributed.reducer",
    "distributed.reductions",
    "distributed.stores",
    "distributed.subgroups",
    "distributed.sync_batchnorm",
    "distributed.transport",
    "distributed.work",
    "distributed.world",
    "export.launch_recorder",
    "front",
    "func.",
    "functorch.compile",
    "fx.experimental.as_called",
    "fx.experimental.numbers",
    "fx.experimental.pre_dispatch",
    "graph",
    "inspection",
    "io",
    "ir",
    "jit.forms",
    "jit.ir",
    "kernels",
    "legacy",
    "nested._internal.gathered",
    "nested._internal.padding",
    "nested._internal.products",
    "nested._internal.rules",
    "nested._internal.reductions",
    "nested._internal.strided",
    "nested._internal.views",
    "nn.modules.attention",
    "onnx.importing",
    "onnx.lowering",
    "operators",
    "ops.",
    "profiler.execution_trace",
    "random.",
    "run",
    "runtime",
    "serialization.",
    "serve",
    "sparse.factories",
    "sparse.gradcheck",
    "sparse.invariants",
    "te",
    "tensor_expressions",
    "testing.file_check",
    "torch_compat",
    "transforms",
    "utils.data.collate",
    "utils.data.fetch",
    "utils.data.info",
    "utils.data.parallel",
    "utils.data.passes",
    "utils.data.threads",
    "utils.data.transport",
    "utils.data.worker",
    "utils.pictures",
    "utils.progress",
    "utils.tensorboard.graphs",
    "utils.tensorboard.media",
)

# Private modules that PyTorch has under the same name, and what is inside of them; every
# other private module is Rushlight's alone.
SHARED_PRIVATE = (
    "_C",
    "_compile",
    "_dynamo",
    "_decomp",
    "_export",
    "_functorch",
    "_higher_order_ops",
    "_inductor",
    "_jit_internal",
    "_library",
    "_logging",
    "_ops",
    "_prims",
    "_prims_common",
    "_subclasses",
    "_tensor_str",
    "_utils",
    "ao.ns._numeric_suite",
    "ao.ns._numeric_suite_fx",
    "ao.pruning._mappings",
    "ao.quantization.fx._decomposed",
    "ao.quantization.fx._equalize",
    "compiler._cache",
    "distributed._composable",
    "distributed._functional_collectives",
    "distributed._symmetric_memory",
    "distributed._tensor",
    "distributed.algorithms._checkpoint",
    "distributed.checkpoint._nested_dict",
    "distributed.checkpoint._traverse",
    "distributed.fsdp._common_utils",
    "distributed.fsdp._flat_param",
    "distributed.fsdp._fully_shard",
    "distributed.pipelining._IR",
    "distributed.tensor._api",
    "distributed.tensor._dispatch",
    "distributed.tensor._dtensor_spec",
    "distributed.tensor._redistribute",
    "distributed.tensor._utils",
    "export._draft_export",
    "export._trace",
    "export._unlift",
    "export.pt2_archive._package",
    "fx._compatibility",
    "fx._lazy_graph_module",
    "fx._pytree",
    "fx._symbolic_trace",
    "fx._utils",
    "fx.experimental._backward_state",
    "fx.experimental._config",
    "jit._builtins",
    "jit._freeze",
    "jit._passes",
    "jit._script",
    "jit._state",
    "jit._trace",
    "masked._ops",
    "masked.maskedtensor._ops_refs",
    "nested._internal",
    "nn._reduction",
    "nn.attention._registry",
    "nn.utils._expanded_weights",
    "nn.utils._named_member_accessor",
    "nn.utils._per_sample_grad",
    "optim._adafactor",
    "optim._muon",
    "optim._stateless",
    "profiler._memory_profiler",
    "sparse._semi_structured_conversions",
    "testing._internal",
    "utils._contextlib",
    "utils._device",
    "utils._foreach_utils",
    "utils._import_utils",
    "utils._mode_utils",
    "utils._ordered_set",
    "utils._python_dispatch",
    "utils._pytree",
    "utils._triton",
    "utils.data._utils",
    "utils.data.datapipes._decorator",
    "utils.data.datapipes._hook_iterator",
    "utils.data.datapipes._typing",
)


def is_own(path):
    """Whether a module, by its path inside the package, has no place in PyTorch.

    >>> [is_own(path) for path in ("core.dtype", "nn.functional", "ops", "random.normal")]
    [True, False, False, True]
    """
    listed = any(
        path.startswith(name) if name.endswith(".") else _is_within(path, name)
        for name in OWN
    )
    if listed or not _PRIVATE.search(path):
        return listed
    return not any(_is_within(path, name) for name in SHARED_PRIVATE)


_PRIVATE = re.compile(r"(^|\.)_(?!_)")


def _is_within(path, name):
    return path == name or path.startswith(name + ".")


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
    "rushlight.core.type_names.TensorMeta": "torch._C._TensorMeta",
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
    "rushlight.operators.linalg.linalg_checks.LinAlgError": "torch._C._LinAlgError",
    "rushlight.autograd.node.Node": "torch.autograd.graph.Node",
    "rushlight._dynamo.eval_frame.compile": "torch.compile",
    "rushlight._typed_storage.TypedStorage": "torch.storage.TypedStorage",
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
