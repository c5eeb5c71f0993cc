"""What programs ask about their surroundings has PyTorch's answers, or says why not."""

import warnings

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")

# Asked of both sides: the values, or the classes of the exceptions, must be the same.
QUESTIONS = """
cuda.is_available() cuda.device_count() cuda.is_initialized() cuda.current_device()
cuda.get_device_name() cuda.get_device_properties(0) cuda.get_device_capability()
cuda.memory_allocated() cuda.max_memory_allocated() cuda.memory_reserved()
cuda.memory_stats() cuda.synchronize() cuda.get_rng_state() cuda.get_rng_state_all()
cuda.manual_seed(1) cuda.manual_seed_all(1) cuda.empty_cache() cuda.get_arch_list()
cuda.is_bf16_supported() cuda.mem_get_info() cuda.Stream() cuda.Event() cuda.CUDAGraph()
cuda.current_stream() cuda.set_device(-1) cuda.FloatTensor() cuda.init() cuda.has_half
cuda.default_generators cuda.nvtx.range_push("a") cuda.ipc_collect()
mps.is_available() mps.device_count() mps.empty_cache() mps.synchronize() mps.manual_seed(0)
xpu.is_available() xpu.device_count() xpu.current_device() xpu.empty_cache()
xpu.synchronize() accelerator.is_available() accelerator.device_count()
accelerator.current_accelerator() accelerator.current_device_index()
accelerator.synchronize() mtia.is_available() backends.mps.is_available()
backends.mps.is_built() backends.cuda.is_built() backends.cudnn.is_available()
backends.cudnn.version() backends.cudnn.enabled backends.cudnn.benchmark
backends.cudnn.deterministic backends.cudnn.allow_tf32 backends.cuda.matmul.allow_tf32
backends.cuda.flash_sdp_enabled() backends.cuda.math_sdp_enabled()
backends.mkldnn.enabled backends.fp32_precision backends.cpu.get_cpu_capability()
get_float32_matmul_precision() get_deterministic_debug_mode()
are_deterministic_algorithms_enabled() is_autocast_enabled() is_autocast_cache_enabled()
version.cuda version.hip version.debug jit.is_scripting() jit.is_tracing()
compiler.is_compiling() compiler.is_exporting() _C._get_tracing_state()
distributed.is_initialized() distributed.get_rank() distributed.get_world_size()
distributed.is_nccl_available() onnx.is_in_onnx_export() hub.get_dir()
multiprocessing.get_all_sharing_strategies() multiprocessing.get_sharing_strategy()
compiled_with_cxx11_abi() hub.load("a/b","c",source="x")
sym_max(1,2.0) sym_min(1,2.0) sym_int(2.5) sym_not(True) classes.foo.Bar
cpu.current_device() cpu.is_initialized()
jit.script(3) jit.script("x") jit.script(None) jit.script(len)
linalg.LinAlgError.__name__ linalg.LinAlgError.__qualname__
backends.cudnn.conv.fp32_precision backends.mkldnn.matmul.fp32_precision
cpu.device_count() ops.load_library("nothing.so") ops.nothing.here
""".split()


def answer(module, question):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return eval(f"m.{question}", {"m": module})
        except Exception as error:
            return type(error)


# Switches, and what each is given: the error, or what is read back, must be the same.
SWITCHES = """
backends.cudnn.enabled backends.cudnn.benchmark backends.cudnn.deterministic
backends.cudnn.allow_tf32 backends.cudnn.fp32_precision backends.cudnn.conv.fp32_precision
backends.mkldnn.enabled backends.mkldnn.deterministic backends.mkldnn.fp32_precision
backends.mkldnn.conv.fp32_precision backends.cuda.matmul.allow_tf32
backends.cuda.matmul.allow_fp16_accumulation backends.cuda.matmul.fp32_precision
backends.cuda.matmul.allow_fp16_reduced_precision_reduction
backends.cuda.matmul.allow_bf16_reduced_precision_reduction backends.cuda.matmul.nosuch
backends.fp32_precision
""".split()
GIVEN = [
    True,
    False,
    "x",
    1,
    None,
    "ieee",
    "tf32",
    "bf16",
    "none",
    (True, False),
    [True],
]


@pytest.fixture
def settable(monkeypatch):
    """PyTorch's own tests freeze its switches when they are imported."""
    flags = torch.backends.flags_frozen.__globals__
    monkeypatch.setitem(flags, "__allow_nonbracketed_mutation_flag", True)


def set_and_read(module, switch, value):
    path, _, name = switch.rpartition(".")
    home = eval(f"m.{path}", {"m": module})
    before = getattr(home, name, None)
    try:
        setattr(home, name, value)
        return getattr(home, name)
    except Exception as error:
        return type(error), str(error).partition("\n")[0]
    finally:
        if before is not None:
            setattr(home, name, before)


@pytest.mark.parametrize("value", GIVEN, ids=str)
@pytest.mark.parametrize("switch", SWITCHES)
def test_switches_refuse_what_pytorch_refuses(switch, value, settable):
    ours, theirs = (set_and_read(m, switch, value) for m in (rl, torch))
    assert ours == theirs


SETTERS = """
backends.cudnn.set_flags(True,False) backends.mkldnn.set_flags("x")
backends.nnpack.set_flags(True) backends.nnpack.set_flags("x")
backends.cuda.enable_flash_sdp("x") backends.cuda.preferred_linalg_library("x")
backends.cuda.preferred_linalg_library(1) backends.cuda.preferred_blas_library(1)
set_float32_matmul_precision(1) set_num_interop_threads("x") set_num_interop_threads(None)
set_anomaly_enabled("x") set_anomaly_enabled(True,1)
backends.cudnn.flags(enabled="x").__enter__() backends.mkldnn.flags(enabled=1).__enter__()
backends.nnpack.flags(enabled="x").__enter__()
""".split()


@pytest.mark.parametrize("call", SETTERS)
def test_setters_refuse_what_pytorch_refuses(call, settable):
    ours, theirs = answer(rl, call), answer(torch, call)
    assert ours == theirs or isinstance(ours, tuple) and ours[0] == theirs[0]


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_answer_is_pytorch_s(question):
    ours, theirs = answer(rl, question), answer(torch, question)
    if isinstance(theirs, type):
        assert issubclass(ours, theirs), ours
    else:
        assert ours == theirs


# Facts that are Rushlight's own.
FACTS = [
    ("distributed.is_available()", True),
    ("backends.mkl.is_available()", False),
    ("backends.mkldnn.is_available()", False),
    ("backends.openmp.is_available()", False),
    ("has_mkl", False),
    ("has_lapack", True),
    ("version.__version__", "2.13.0"),
]


@pytest.mark.parametrize("question, fact", FACTS)
def test_a_fact_about_rushlight_is_true_of_it(question, fact):
    assert answer(rl, question) == fact


REFUSED = [
    "utils.cpp_extension.load('a', [])",
    "hub.load('somebody/something', 'model')",
]


@pytest.mark.parametrize("call", REFUSED)
def test_what_cannot_be_done_says_so_and_what_to_do_instead(call):
    with pytest.raises(NotImplementedError, match="remedy"):
        eval(f"rl.{call}", {"rl": rl})


def test_switches_keep_what_they_are_told_and_blocks_give_it_back():
    rl.backends.cudnn.benchmark = True
    with rl.backends.cudnn.flags(enabled=False, benchmark=False):
        assert not rl.backends.cudnn.enabled and not rl.backends.cudnn.benchmark
    assert rl.backends.cudnn.enabled and rl.backends.cudnn.benchmark
    rl.backends.cudnn.benchmark = False
    rl.use_deterministic_algorithms(True, warn_only=True)
    assert rl.get_deterministic_debug_mode() == 1
    rl.use_deterministic_algorithms(False)
    rl.set_float32_matmul_precision("high")
    assert rl.get_float32_matmul_precision() == "high"
    rl.set_float32_matmul_precision("highest")


def test_scripted_and_traced_programs_compute_the_same():
    def double(x):
        return x * 2

    with pytest.warns(DeprecationWarning):
        assert rl.jit.script(double)(rl.ones(1)) == 2
    with pytest.warns(DeprecationWarning):
        assert rl.jit.trace(double, rl.ones(1))(rl.ones(1)) == 2
    assert rl.jit.script_if_tracing(double)(3) == 6
    assert rl.jit.unused(double) is double and rl.jit.ignore(double) is double
    assert rl.jit.ignore(drop=True)(double) is double
    assert rl.jit.wait(rl.jit.fork(double, 4)) == 8
    assert rl.jit.isinstance([1, "a"], list[int | str])
    assert not rl.jit.isinstance({"a": 1.0}, dict[str, int])


def test_compiled_modules_compute_the_same_and_hold_the_original():
    model = rl.nn.Linear(2, 2)
    compiled = rl.compile(model, backend="eager")
    x = rl.ones(1, 2)
    assert (compiled(x) == model(x)).all()
    assert list(compiled.state_dict()) == ["_orig_mod.weight", "_orig_mod.bias"]
    assert compiled.in_features == 2
    compiled.eval()
    assert not model.training
    assert rl.compile(lambda: 3)() == 3
    with pytest.raises(RuntimeError, match="Invalid backend"):
        rl.compile(abs, backend="nothing")


def test_models_come_from_a_local_folder(tmp_path):
    (tmp_path / "hubconf.py").write_text(
        "dependencies = ['math']\n"
        "def scale(by=2):\n    'A model.'\n    return lambda x: x * by\n"
    )
    assert rl.hub.load(str(tmp_path), "scale", source="local")(3) == 6
    assert rl.hub.list(str(tmp_path)) == ["scale"]
    assert rl.hub.help(str(tmp_path), "scale") == "A model."
    with pytest.raises(RuntimeError, match="Cannot find callable nothing"):
        rl.hub.load(str(tmp_path), "nothing", source="local")


def test_a_fetched_file_is_checked_before_it_is_kept(tmp_path):
    import hashlib

    source, target = tmp_path / "source.pt", tmp_path / "target.pt"
    rl.save({"a": rl.ones(2)}, source)
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    rl.hub.download_url_to_file(
        source.as_uri(), str(target), digest[:8], progress=False
    )
    assert target.read_bytes() == source.read_bytes()
    with pytest.raises(RuntimeError, match="invalid hash value"):
        rl.hub.download_url_to_file(
            source.as_uri(), str(tmp_path / "other"), "00000000", progress=False
        )
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "source.pt",
        "target.pt",
    ]
    state = rl.hub.load_state_dict_from_url(
        source.as_uri(), str(tmp_path / "kept"), progress=False
    )
    assert state["a"].tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    "text",
    ["2.13.0", "2.13.1", "2.9", "3", "2.13.0a1", "2.13.0+cpu", "2.13", "v2.13.0"],
)
def test_versions_compare_as_pytorch_s_do(text):
    from torch.torch_version import TorchVersion

    theirs = TorchVersion("2.13.0")
    ours = rl.torch_version.TorchVersion("2.13.0")
    for compare in ("__lt__", "__le__", "__eq__", "__ne__", "__ge__", "__gt__"):
        assert getattr(ours, compare)(text) == getattr(theirs, compare)(text), compare


def test_data_parallel_without_gpus_is_the_module():
    model = rl.nn.Linear(2, 1)
    parallel = rl.nn.DataParallel(model)
    assert (parallel(rl.ones(3, 2)) == model(rl.ones(3, 2))).all()
    assert list(parallel.state_dict()) == ["module.weight", "module.bias"]
    assert parallel.module is model


def test_sync_batch_norm_in_one_process_is_batch_norm():
    x = rl.randn(4, 3, 5, 5)
    plain = rl.nn.Sequential(rl.nn.Conv2d(3, 3, 1), rl.nn.BatchNorm2d(3))
    converted = rl.nn.SyncBatchNorm.convert_sync_batchnorm(plain)
    assert type(converted[1]) is rl.nn.SyncBatchNorm
    one, other = rl.nn.BatchNorm2d(3), rl.nn.SyncBatchNorm(3)
    assert (one(x) == other(x)).all()
    assert (one.running_var == other.running_var).all()
    assert repr(other) == repr(torch.nn.SyncBatchNorm(3))


def test_the_processor_is_what_pytorch_says():
    assert dict(rl.cpu.get_capabilities()) == dict(torch.cpu.get_capabilities())


@pytest.mark.parametrize(
    "call",
    [
        "_check_tensor_all(m.tensor([True, False]), lambda: 'words')",
        "_check_tensor_all(m.tensor([True, True]))",
        "_check_tensor_all(m.tensor([1]))",
        "_check_tensor_all(True)",
        "_check_with(ValueError, False, lambda: 'words')",
        "_check_with(ValueError, True, None)",
        "library.get_ctx()",
    ],
)
def test_private_checks_are_pytorch_s(call):
    assert answer(rl, call) == answer(torch, call)


@pytest.mark.parametrize(
    "call",
    [
        "canonicalize_dim(3, -1)",
        "canonicalize_dim(3, 5)",
        "canonicalize_dim(0, -1)",
        "canonicalize_dim(0, 0, False)",
        "canonicalize_dims(3, (-1, 0))",
        "make_contiguous_strides_for((2, 0, 4))",
        "make_contiguous_strides_for((2, 3, 4), row_major=False)",
        "make_contiguous_strides_for(())",
        "compute_required_storage_length((2, 3), (3, 1), 4)",
        "is_integer_dtype(m.bool)",
        "dtype_to_type(m.bfloat16)",
        "is_contiguous_or_false(m.ones(2, 3).t())",
        "device_or_default(None).type",
    ],
)
def test_what_decompositions_are_written_with_is_pytorch_s(call):
    def outcome(m, helpers):
        try:
            return eval(f"p.{call}", {"m": m, "p": helpers})
        except IndexError as error:
            return str(error)

    from rushlight import _prims_common as ours

    theirs = pytest.importorskip("torch._prims_common")
    assert outcome(rl, ours) == outcome(torch, theirs)
