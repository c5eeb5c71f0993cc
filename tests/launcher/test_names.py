"""Under the launcher, PyTorch's names are Rushlight's own modules."""

import subprocess
import sys

import pytest

IDENTITY = """
import sys
import torch, rushlight
import torch.nn.functional as F
import torch.linalg
from torch.utils.data import DataLoader
from torch.nn import functional
assert torch is rushlight and F is functional is rushlight.nn.functional
seen = 0
for name, module in list(sys.modules.items()):
    if name == "torch" or name.startswith("torch."):
        seen += 1
        ours = "rushlight" + name[5:]
        if name != "torch.return_types":
            assert sys.modules[ours] is module, name
        assert module.__name__ == module.__spec__.name == name
        assert module.__package__ == module.__spec__.parent, name
files = [m.__file__ for m in {id(m): m for m in sys.modules.values()}.values()
         if getattr(m, "__file__", None) and "rushlight" in m.__file__]
assert len(files) == len(set(files)), "a second copy of a module"
print(seen > 40)
"""


def test_every_module_has_both_names_and_is_there_once(printed):
    assert printed(IDENTITY) == ["True"]


def test_values_and_classes_print_with_pytorch_s_names(printed):
    lines = printed(
        "import torch\n"
        "print(torch.__name__, torch.__version__, torch.float32, torch.strided)\n"
        "print(torch.Size([2]), torch.Tensor, torch.dtype, torch.device, torch.Size)\n"
        "print(torch.nn.Linear, torch.nn.Parameter, torch.Generator, torch.FloatTensor)\n"
        "print(torch.UntypedStorage, torch.optim.Adam, torch.no_grad)\n"
        "print(torch.nn.functional.relu.__module__, torch.manual_seed.__module__)\n"
        "print(repr(torch.ones(1, dtype=torch.float64)), torch.ones(2).max(0))\n"
        "print(torch, torch.nn.functional)\n"
    )
    assert lines[0] == "torch 2.13.0 torch.float32 torch.strided"
    assert lines[1] == (
        "torch.Size([2]) <class 'torch.Tensor'> <class 'torch.dtype'> "
        "<class 'torch.device'> <class 'torch.Size'>"
    )
    assert lines[2] == (
        "<class 'torch.nn.modules.linear.Linear'> <class 'torch.nn.parameter.Parameter'> "
        "<class 'torch._C.Generator'> <class 'torch.FloatTensor'>"
    )
    assert lines[3] == (
        "<class 'torch.storage.UntypedStorage'> <class 'torch.optim.adam.Adam'> "
        "<class 'torch.autograd.grad_mode.no_grad'>"
    )
    assert lines[4] == "torch.nn.functional torch.random"
    assert lines[5] == "tensor([1.], dtype=torch.float64) torch.return_types.max("
    assert lines[8].startswith("<module 'torch' from ")


def test_what_is_imported_later_is_named_as_well(printed):
    lines = printed(
        "import torch\n"
        "print(torch.OutOfMemoryError, torch.typename.__module__, torch.compile.__module__)\n"
        "print(torch.autograd.graph.Node, torch.nn.MultiheadAttention)\n"
        "print(type(torch.ones(2).max(0)), torch.linalg.LinAlgError)\n"
        "print(torch.amp.autocast, torch.utils.data.default_collate.__module__)\n"
    )
    assert lines == [
        "<class 'torch.OutOfMemoryError'> torch torch",
        "<class 'torch.autograd.graph.Node'> "
        "<class 'torch.nn.modules.activation.MultiheadAttention'>",
        "<class 'torch.return_types.max'> <class 'torch._C._LinAlgError'>",
        "<class 'torch.amp.autocast_mode.autocast'> torch.utils.data._utils.collate",
    ]


def test_without_the_launcher_nothing_is_called_torch(printed):
    lines = printed(
        "import sys, rushlight as rl\n"
        "print(rl.float32, rl.Size([2]), rl.Tensor, rl.nn.Linear, rl.__name__)\n"
        "print([m for m in sys.modules if m.split('.')[0] == 'torch'])\n"
        "print(any('rushlight' in repr(finder) for finder in sys.meta_path))\n",
        launcher=False,
    )
    assert lines == [
        "rushlight.float32 rushlight.Size([2]) <class 'rushlight.Tensor'> "
        "<class 'rushlight.nn.modules.linear.Linear'> rushlight",
        "[]",
        "False",
    ]


def test_packages_that_ask_for_an_installed_pytorch_find_its_version(printed):
    lines = printed(
        "import importlib.metadata as m, importlib.util as u\n"
        "print(m.version('torch'), m.distribution('Torch').metadata['Name'])\n"
        "print(u.find_spec('torch').name, u.find_spec('torch.nn.init').name)\n"
        "print(u.find_spec('torch.nothing'))\n"
        "print(sum(d.metadata['Name'] == 'torch' for d in m.distributions()) > 0)\n"
        "import torch\n"
        "print(torch.__version__ >= '2.4', torch.__version__ < (2, 14), "
        "torch.__version__.split('.')[:2])\n"
    )
    assert lines == [
        "2.13.0 torch",
        "torch torch.nn.init",
        "None",
        "True",
        "True True ['2', '13']",
    ]


MISSING = [
    ("torch.relo", "AttributeError: module 'torch' has no attribute 'relo'", "'relu'"),
    (
        "torch.nn.Lineer",
        "AttributeError: module 'torch.nn' has no attribute",
        "'Linear'",
    ),
    (
        "from torch.nn import Lineer",
        "ImportError: cannot import name 'Lineer'",
        "'Linear'",
    ),
    (
        "from torch.nn.functional import rellu",
        "ImportError: cannot import name",
        "'relu'",
    ),
    ("import torch.lianlg", "ModuleNotFoundError: No module named 'torch.lianlg'", ""),
    ("import torch.core", "ModuleNotFoundError: No module named 'torch.core'", ""),
]


@pytest.mark.parametrize(
    "text, message, near", MISSING, ids=[row[0] for row in MISSING]
)
def test_a_missing_name_says_which_and_what_stands_nearest(
    launched, text, message, near
):
    done = launched(f"import torch, torch.nn.functional\n{text}\n")
    assert done.returncode == 1
    assert message in done.stderr and near in done.stderr
    assert "torch_compat" not in done.stderr and "rushlight._" not in done.stderr


def test_asking_for_a_missing_name_is_false(printed):
    lines = printed(
        "import torch\n"
        "print(hasattr(torch, 'nothing'), getattr(torch.nn, 'nothing', 3))\n"
        "try:\n    import torch._six\nexcept ModuleNotFoundError as e: print(e.name)\n"
        "try:\n    from torch import nothing\nexcept ImportError as e: print(e.name)\n"
    )
    assert lines == ["False 3", "torch._six", "torch"]


def test_a_copy_of_pytorch_that_is_loaded_already_is_not_replaced():
    pytest.importorskip("torch")
    text = "import torch, rushlight; rushlight.install_as_torch()"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert "RuntimeError: install_as_torch: torch is already imported" in done.stderr
    assert "remedy" in done.stderr


def test_a_program_may_install_the_names_itself_and_twice(printed):
    lines = printed(
        "import rushlight\n"
        "rushlight.install_as_torch()\n"
        "rushlight.install_as_torch()\n"
        "import torch, sys\n"
        "print(torch is rushlight, torch.float32, len([f for f in sys.meta_path "
        "if type(f).__module__.startswith('rushlight')]))\n",
        launcher=False,
    )
    assert lines == ["True torch.float32 1"]


PICKLES = """
import io, pickle, torch
values = [torch.float32, torch.Size([2]), torch.device("cpu"), torch.strided,
          torch.channels_last, torch.nn.Linear, torch.nn.functional.relu,
          torch.manual_seed]
for value in values:
    for protocol in 0, 2, 5:
        data = pickle.dumps(value, protocol)
        assert b"rushlight" not in data, data
        back = pickle.loads(data)
        assert back is value or back == value, value
model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Dropout(0.5))
back = pickle.loads(pickle.dumps(model))
assert type(back) is torch.nn.Sequential
assert all((a == b).all() for a, b in zip(model.parameters(), back.parameters()))
file = io.BytesIO()
torch.save(model, file)
file.seek(0)
print(torch.load(file, weights_only=False))
"""


def test_pickles_name_pytorch_s_modules(printed):
    lines = printed(PICKLES)
    assert lines[0] == "Sequential("


def test_what_rushlight_pickled_is_read_under_the_launcher(printed, tmp_path):
    path = tmp_path / "model.pkl"
    printed(
        "import pickle, rushlight as rl\n"
        f"pickle.dump((rl.nn.Linear(2, 1), rl.float16, rl.ones(2)), open({str(path)!r}, 'wb'))",
        launcher=False,
    )
    lines = printed(
        "import pickle, torch\n"
        f"model, dtype, ones = pickle.load(open({str(path)!r}, 'rb'))\n"
        "print(type(model) is torch.nn.Linear, dtype is torch.float16, ones)"
    )
    assert lines == ["True True tensor([1., 1.])"]


TENSORS = """
import pickle, torch, sys
x = torch.arange(6.0).reshape(2, 3)
values = {
    "x": x, "view": x[:, 1], "p": torch.nn.Parameter(torch.ones(2)),
    "i": torch.tensor([1, 2]), "h": torch.ones(1, dtype=torch.bfloat16),
}
with open(sys.argv[1], "wb") as file:
    pickle.dump(values, file)
"""
READING = """
import pickle, torch, sys
with open(sys.argv[1], "rb") as file:
    values = pickle.load(file)
print(values["x"].tolist(), values["view"].tolist(), values["view"].stride())
print(type(values["p"]) is torch.nn.Parameter, values["p"].requires_grad)
print(values["i"].dtype, values["h"].dtype, values["h"].tolist())
"""
READ = [
    "[[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]] [1.0, 4.0] (3,)",
    "True True",
    "torch.int64 torch.bfloat16 [1.0]",
]


@pytest.mark.parametrize("writer, reader", [(0, 1), (1, 0), (0, 0)])
def test_pickled_tensors_go_both_ways(printed, tmp_path, writer, reader):
    """0 is the launcher, 1 PyTorch."""
    pytest.importorskip("torch")
    path = tmp_path / "values.pkl"
    printed(TENSORS, path, launcher=not writer)
    assert printed(READING, path, launcher=not reader) == READ


def test_tensors_that_share_memory_share_it_in_a_pickle(printed):
    lines = printed(
        "import copy, pickle, torch\n"
        "x = torch.zeros(3)\n"
        "a, b = pickle.loads(pickle.dumps((x, x[1:])))\n"
        "b.fill_(1)\n"
        "print(a.tolist(), copy.copy(x).data_ptr() == x.data_ptr())\n"
    )
    assert lines == ["[0.0, 1.0, 1.0] True"]
