"""Names below PyTorch's public ones that well-known packages import."""

import os

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.nn.utils._named_member_accessor import NamedMemberAccessor, swap_tensor
from rushlight.utils import _contextlib, _pytree


def test_functorch_is_there_under_the_launcher(printed):
    lines = printed(
        "import torch, functorch\n"
        "from functorch import make_functional, make_functional_with_buffers, vmap\n"
        "torch.manual_seed(0)\n"
        "model = torch.nn.Linear(3, 2)\n"
        "f, params = make_functional(model)\n"
        "x = torch.ones(4, 3)\n"
        "print(torch.equal(f(params, x), model(x)), params[0].requires_grad)\n"
        "nets = [torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)).eval()"
        " for _ in range(3)]\n"
        "g, p, b = functorch.combine_state_for_ensemble(nets)\n"
        "out = vmap(g, in_dims=(0, 0, None))(p, b, x)\n"
        "print(torch.allclose(out[1], nets[1](x)), out.shape)\n"
        "try: make_functional(nets[0])\n"
        "except RuntimeError as e: print(e)\n"
        "print(functorch.__name__, functorch.make_fx.__name__)\n"
    )
    assert lines == [
        "True True",
        "True torch.Size([3, 4, 2])",
        "make_functional(model): `model` has buffers. Please use "
        "make_functional_with_buffers(model) instead.",
        "functorch make_fx",
    ]


def test_print_options_are_read_and_set_as_attributes(printed):
    lines = printed(
        "import torch\n"
        "from torch._tensor_str import PRINT_OPTS, _tensor_str, _str_intern\n"
        "x = torch.arange(3.0)\n"
        "print(_tensor_str(x, 0), PRINT_OPTS.threshold)\n"
        "PRINT_OPTS.precision = 1\n"
        "print(x / 3, _str_intern(x, tensor_contents='[...]'))\n"
    )
    assert lines == ["[0., 1., 2.] 1000", "tensor([0.0, 0.3, 0.7]) tensor([...])"]


def test_batched_tensors_are_told_from_others():
    from rushlight._C import _functorch as core

    seen = []

    def look(x):
        seen.append(
            (
                core.is_batchedtensor(x),
                core.maybe_get_bdim(x),
                core.maybe_get_level(x),
                core.current_level(),
                core.get_unwrapped(x).shape,
            )
        )
        y = core._add_batch_dim(rl.ones(4, 5), 1, 1)
        back = core._remove_batch_dim(y, 1, 5, 0)
        seen.append((y.shape, back.shape, core._remove_batch_dim(rl.ones(2), 1, 5, 1)))
        return x

    rl.func.vmap(look)(rl.ones(5, 3))
    assert seen[0] == (True, 0, 1, 1, (5, 3))
    assert seen[1][:2] == ((4,), (5, 4)) and seen[1][2].shape == (2, 5)
    x = rl.ones(2)
    assert not core.is_batchedtensor(x) and core.get_unwrapped(x) is x
    assert (core.maybe_get_level(x), core.current_level()) == (-1, 0)
    with pytest.raises(RuntimeError, match="no transformation of level 3"):
        core._add_batch_dim(x, 0, 3)


def test_contexts_decorate_functions_and_generators():
    events = []

    class noted(_contextlib._DecoratorContextManager):
        def __enter__(self):
            events.append("in")

        def __exit__(self, *raised):
            events.append("out")

    @noted()
    def work():
        events.append("work")
        yield 1

    assert list(work()) == [1]
    assert events[:3] == ["in", "work", "out"]

    class quiet(_contextlib._NoParamDecoratorContextManager):
        __enter__ = __exit__ = lambda self, *raised: events.append("quiet")

    @quiet
    def plain():
        return 2

    assert plain() == 2 and events[-2:] == ["quiet", "quiet"]
    wrapped = _contextlib.context_decorator(noted(), lambda: 3)
    assert wrapped() == 3 and events[-2:] == ["in", "out"]


def test_kinds_of_containers_are_taken_apart_by_pytorch_s_names():
    assert _pytree._list_flatten([1, 2]) == ([1, 2], None)
    assert _pytree._tuple_unflatten([1, 2], None) == (1, 2)
    keys, _ = _pytree._dict_flatten_with_keys({"a": 1})
    assert [(str(key), value) for key, value in keys] == [("['a']", 1)]
    with pytest.raises(TypeError, match="non-default `__eq__`"):
        _pytree.register_constant(type("Plain", (), {}))


def test_members_are_swapped_by_their_paths():
    model = nn.Sequential(nn.Linear(2, 1), nn.BatchNorm1d(1))
    access = NamedMemberAccessor(model)
    weight = model[0].weight
    assert access.swap_tensor("0.weight", rl.ones(1, 2)) is weight
    assert model[0].weight.tolist() == [[1.0, 1.0]]
    access.set_tensors_dict({"0.weight": weight})
    assert model[0].weight is weight
    old, missing = access.swap_tensors_dict({"1.running_mean": rl.ones(1)})
    assert list(old) == ["1.running_mean"] and not missing
    lacking, unknown = access.check_keys(["0.weight", "2.weight"])
    assert "0.bias" in lacking and unknown == ["2.weight"]
    with pytest.raises(AttributeError, match="has no attribute `nothing`"):
        swap_tensor(model[0], "nothing", rl.ones(1))
    with pytest.raises(TypeError, match="is not an instance of torch.nn.Module"):
        access.get_submodule("0.weight")
    with pytest.raises(RuntimeError, match="Missing key"):
        access.swap_tensors_dict({"0.weight": rl.ones(1), "0.other": rl.ones(1)})
    assert model[0].weight is weight


def test_workers_numpy_seeds_are_pytorch_s():
    theirs = pytest.importorskip("torch.utils.data._utils.worker")
    from rushlight.utils.data._utils.worker import _generate_state

    for pair in ((0, 0), (7, 3), (2**40 + 5, 11)):
        assert _generate_state(*pair) == theirs._generate_state(*pair)


JIT_TYPES = (
    "IntType.get()",
    "TensorType.get()",
    "DeviceObjType.get()",
    "ListType.ofInts()",
    "OptionalType.ofTensor()",
    "DictType({0}StringType.get(), {0}IntType.get())",
    "TupleType([{0}IntType.get(), {0}FloatType.get()])",
    "UnionType([{0}IntType.get(), {0}StringType.get()])",
)


@pytest.mark.parametrize("text", JIT_TYPES)
def test_types_of_translated_programs_read_as_pytorchs(text):
    torch = pytest.importorskip("torch")

    def read(core):
        kind, again = (
            eval(f"core.{text.format('core.')}", {"core": core}) for _ in range(2)
        )
        assert kind == again
        return str(kind), kind.kind(), kind.annotation_str

    assert read(rl._C) == read(torch._C)
    assert rl._C.IntType.get().isSubtypeOf(rl._C.NumberType.get())


def test_groups_of_tensors_are_pytorchs():
    torch = pytest.importorskip("torch")
    from torch.utils import _foreach_utils as theirs

    from rushlight.utils import _foreach_utils as ours

    told = []
    for lib, module in ((rl, ours), (torch, theirs)):
        first = [lib.ones(2), lib.ones(1, dtype=lib.float64), lib.zeros(3)]
        groups = module._group_tensors_by_device_and_dtype([first, [None] * 3], True)
        told.append(
            sorted(
                (str(kind).split(".")[1], [len(each) for each in lists], places)
                for (_, kind), (lists, places) in groups.items()
            )
        )
        assert module._has_foreach_support(first, lib.device("cpu"))
    assert told[0] == told[1]


def test_names_for_other_processes_are_there_and_say_so(printed):
    lines = printed(
        "import torch, torch.distributed.nn\n"
        "from torch.distributed.optim import ZeroRedundancyOptimizer\n"
        "x = torch.ones(2)\n"
        "for call in (lambda: torch.distributed.nn.all_reduce(x),\n"
        "             lambda: ZeroRedundancyOptimizer([x], torch.optim.SGD, lr=1)):\n"
        "    try: call()\n"
        "    except ValueError as e: print(e)\n"
        "from torch.distributions.transforms import _InverseTransform, ExpTransform\n"
        "print(isinstance(ExpTransform().inv, _InverseTransform))\n"
        "from torch.utils.data._utils.pin_memory import pin_memory\n"
        "try: pin_memory((1, {'a': x}))\n"
        "except RuntimeError as e: print(e, x.name)\n"
        "import torch.utils.hooks as hooks\n"
        "print(hooks.BackwardHook.__name__, torch.serialization.DEFAULT_PROTOCOL)\n"
    )
    refusal = (
        "Default process group has not been initialized, please make sure to call "
        "init_process_group."
    )
    no_card = "Cannot access accelerator device when none is available. None"
    assert lines == [refusal, refusal, "True", no_card, "BackwardHook 2"]


def test_programs_that_may_spread_parameters_run_where_nothing_is_spread():
    from rushlight.distributed import _tensor, fsdp, tensor
    from rushlight.distributed._composable import fsdp as earlier
    from rushlight.distributed._tensor import experimental

    assert _tensor.DTensor is tensor.DTensor
    assert earlier.FSDPModule is fsdp.FSDPModule
    module = rl.nn.Linear(2, 2)
    assert not isinstance(module, (fsdp.FSDPModule, fsdp.FullyShardedDataParallel))
    with experimental.implicit_replication():
        fsdp.register_fsdp_forward_method(module, "forward")
    for refused in (fsdp.fully_shard, fsdp.FullyShardedDataParallel):
        with pytest.raises(ValueError, match="process group has not been initialized"):
            refused(module)


def test_modules_of_spread_training_can_be_imported():
    from rushlight import nn
    from rushlight.distributed import fsdp
    from rushlight.distributed.fsdp import api, sharded_grad_scaler, wrap
    from rushlight.distributed.fsdp._common_utils import clean_tensor_name
    from rushlight.distributed.fsdp._fully_shard import _fsdp_api, _fully_shard
    from rushlight.distributed.fsdp.fully_sharded_data_parallel import (
        FullyShardedDataParallel,
    )

    assert FullyShardedDataParallel is fsdp.FullyShardedDataParallel
    assert FullyShardedDataParallel.fsdp_modules(nn.Linear(1, 1)) == []
    assert _fsdp_api.MixedPrecisionPolicy is fsdp.MixedPrecisionPolicy
    assert _fully_shard.fully_shard is fsdp.fully_shard
    assert api.FullStateDictConfig() == fsdp.FullStateDictConfig(False, False)
    assert clean_tensor_name("_fsdp_wrapped_module.0.weight") == "0.weight"
    scaler = sharded_grad_scaler.ShardedGradScaler("cpu", 4.0)
    assert scaler.scale(rl.ones(())).item() == 4.0
    module = nn.Sequential(nn.Linear(1, 1), nn.ReLU())
    chosen = wrap.CustomPolicy(lambda m: {"a": 1} if isinstance(m, nn.ReLU) else False)
    assert chosen._run_policy(module, set(), {"b": 2}) == {module[1]: {"a": 1, "b": 2}}
    with pytest.raises(ValueError, match="kwarg dict"):
        wrap.CustomPolicy(lambda m: 3)._run_policy(module, set(), {})
    policy = wrap.ModuleWrapPolicy([nn.Linear])
    assert policy._run_policy(module, set(), {}) == {module[0]: {}}
    assert not wrap.size_based_auto_wrap_policy(nn.ModuleList(), False, 10**9)
    with pytest.raises(ValueError, match="FSDPModules"):
        fsdp.share_comm_ctx([module])


def test_fsdp_has_pytorch_s_names_and_values():
    torch_fsdp = pytest.importorskip("torch.distributed.fsdp")
    import dataclasses

    from rushlight.distributed import fsdp

    assert set(fsdp.__all__) == {*torch_fsdp.__all__, "FlatParameter"}
    for name in torch_fsdp.__all__:
        ours, theirs = getattr(fsdp, name), getattr(torch_fsdp, name)
        if dataclasses.is_dataclass(theirs):
            names = [field.name for field in dataclasses.fields(theirs)]
            assert [field.name for field in dataclasses.fields(ours)] == names, name
        elif hasattr(theirs, "__members__"):
            values = {key: one.value for key, one in theirs.__members__.items()}
            assert {k: v.value for k, v in ours.__members__.items()} == values, name


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_parts_of_translated_programs_can_be_imported_and_not_made():
    from rushlight import _C, jit
    from rushlight.jit import _script, _trace

    for name in ("Use", "Code", "ErrorReport"):
        with pytest.raises(TypeError, match="No constructor defined"):
            getattr(_C, name)()
    assert not isinstance(3, _C.Value) and _C.Value is _C.Value
    program = jit.script(_doubled).graph
    assert isinstance(program, _C.Graph) and isinstance(next(program.nodes()), _C.Node)
    assert isinstance(next(program.inputs()), _C.Value)
    assert _C.ScriptModule is _script.ScriptModule is jit.ScriptModule
    assert jit.TracedModule is _trace.TopLevelTracedModule.__base__
    assert jit.TracedModule is not _trace.TopLevelTracedModule


def _doubled(x):
    return x + x


def test_a_truth_value_chooses_one_function_of_two():
    from rushlight._jit_internal import boolean_dispatch

    choose = boolean_dispatch("up", 1, False, sorted, list, "place", "choose")
    plain = boolean_dispatch("up", 1, True, lambda x, up=1: up, list, None, None)
    assert choose([2, 1]) == [2, 1] and plain(3, up=4) == 4 and plain(3) == 1
    assert (choose.__name__, choose.__module__) == ("choose", "place")


def test_what_programs_ask_of_a_gpu_is_pytorchs_without_one():
    from rushlight import cuda, xpu

    assert cuda._is_in_bad_fork() is xpu._is_in_bad_fork() is False
    assert cuda._lazy_call(lambda: 1 / 0) is None  # it waits for a GPU that never comes
    with pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled"):
        cuda._lazy_init()
    with pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled"):
        with cuda.profiler.profile():
            pass
    with pytest.raises(ModuleNotFoundError, match="nvidia-ml-py"):
        cuda.device_memory_used()


def test_the_core_tells_of_operators_and_devices(printed):
    lines = printed(
        "import torch\n"
        "text = torch._C._dispatch_dump('aten::relu').splitlines()\n"
        "print(text[:2], any(line.startswith('CPU: ') for line in text))\n"
        "print(repr(torch._C._dispatch_dump('aten::nothing')))\n"
        "print(torch._C._jit_get_operation('aten::relu')[1])\n"
        "print(torch._C._get_default_device(), torch._C._has_xpu)\n"
        "print(torch._disable_dynamo(lambda x: x + 1)(2))\n"
        "x = torch.ones(2, requires_grad=True)\n"
        "(x * 2).sum().backward()\n"
        "print(x._grad, (x * 1)._grad)\n"
    )
    assert lines == [
        "['name: aten::relu', 'schema: aten::relu(Tensor self) -> Tensor'] True",
        "''",
        "['']",
        "cpu False",
        "3",
        "tensor([2., 2.]) None",
    ]


def test_programs_are_not_compiled_where_the_environment_says_so(printed):
    text = (
        "import torch\n"
        "f = lambda x: x.item()\n"
        "print(torch.compile(f, fullgraph=True)(torch.ones(())))\n"
    )
    for name in ("TORCHDYNAMO_DISABLE", "TORCH_COMPILE_DISABLE"):
        assert printed(text, env={**os.environ, name: "1"}) == ["1.0"]


def test_names_of_devices_that_are_not_there_refuse_as_pytorch_s(printed):
    lines = printed(
        "import torch\n"
        "import torch.distributed._symmetric_memory as memory\n"
        "x = torch.ones(2, 2)\n"
        "def first(f, *args):\n"
        "    try: print(f(*args))\n"
        "    except Exception as e: print(type(e).__name__, str(e).partition('.')[0])\n"
        "first(torch._convert_weight_to_int4pack, x, 1)\n"
        "first(torch.ops.aten._weight_int4pack_mm, x, x, 32, x)\n"
        "first(torch.cuda.memory._record_memory_history)\n"
        "first(memory.empty, 3)\n"
        "first(memory.rendezvous, x, 'g')\n"
        "first(memory.set_backend, 'CUDA')\n"
        "first(memory.is_symm_mem_tensor, x)\n"
        "first(memory.enable_symm_mem_for_group, 'g')\n"
    )
    assert lines == [
        "NotImplementedError Could not run 'aten::_convert_weight_to_int4pack' with "
        "arguments from the 'CPU' backend",
        "NotImplementedError Could not run 'aten::_weight_int4pack_mm' with arguments "
        "from the 'CPU' backend",
        "AttributeError module 'torch",
        "RuntimeError SymmetricMemory does not support device type cpu",
        "RuntimeError SymmetricMemory does not support device type cpu",
        "RuntimeError SymmetricMemory does not find allocation backend CUDA",
        "False",
        "RuntimeError Could not resolve the process group registered under the name g",
    ]


def test_names_that_are_only_imported_refuse_when_they_are_called(printed):
    lines = printed(
        "import torch\n"
        "from torch._inductor.ir import TensorBox\n"
        "from torch._inductor.fx_passes.freezing_patterns import (\n"
        "    register_freezing_graph_pattern as register)\n"
        "from torch.sparse._triton_ops_meta import get_meta, minimize, update\n"
        "print(TensorBox.__module__, TensorBox.__name__)\n"
        "try: get_meta()\n"
        "except NotImplementedError as e: print(e)\n"
        "print(register.__name__)\n"
        "try: from torch._inductor.ir import Nothing\n"
        "except ImportError as e: print(type(e).__name__)\n"
    )
    assert lines == [
        "torch._inductor.ir TensorBox",
        "torch.sparse._triton_ops_meta.get_meta: Rushlight has no kernels in Triton",
        "register_freezing_graph_pattern",
        "ImportError",
    ]


def test_what_libraries_of_quantization_import_is_there(printed):
    lines = printed(
        "import torch\n"
        "import torch.distributed\n"
        "from torch._export.error import InternalError\n"
        "from torch._inductor.freezing_utils import (\n"
        "    enter_freezing, is_frozen_param, maybe_set_is_frozen_param as mark)\n"
        "from torch._inductor.lowering import lowerings, register_lowering, to_dtype\n"
        "from torch._library.infer_schema import infer_schema\n"
        "from torch.export.unflatten import _assign_attr, _AttrKind\n"
        "from torch.fx.graph import Argument\n"
        "x, y = torch.ones(2), torch.ones(2)\n"
        "mark(x)\n"
        "with enter_freezing(): mark(y)\n"
        "print(is_frozen_param(x), is_frozen_param(y))\n"
        "model = torch.nn.Module()\n"
        "_assign_attr(x, model, 'inner.held', _AttrKind.BUFFER, persistent=False)\n"
        "_assign_attr(torch.nn.Parameter(y), model, 'weight', _AttrKind.PARAMETER)\n"
        "print(list(model.state_dict()), [n for n, _ in model.named_buffers()])\n"
        "print(hasattr(torch._C._cpu, '_is_vnni_supported'))\n"
        "print(torch.ops.c10d.scatter_.default, torch.ops.c10d_functional.wait_tensor)\n"
        "print(torch.ops.prims.convert_element_type.default(x, torch.int8).dtype)\n"
        "print(torch.ops.aten.sym_size.default(x), torch.ops.aten.sym_numel(x))\n"
    )
    assert lines == [
        "False True",
        "['weight'] ['inner.held']",
        "True",
        "c10d.scatter_.default c10d_functional.wait_tensor",
        "torch.int8",
        "[2] 2",
    ]
