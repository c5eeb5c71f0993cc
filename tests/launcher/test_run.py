"""``python -m rushlight.run`` runs a program as Python itself does."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import sys, torch
print(sys.argv, __name__, __file__, sys.path[0])
print(torch.ones(2))
"""


def test_a_script_sees_its_own_arguments_name_and_folder(launched, tmp_path):
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    done = launched(command=(path, "--lr", "0.1"))
    assert done.stdout.splitlines() == [
        f"[{str(path)!r}, '--lr', '0.1'] __main__ {path} {tmp_path}",
        "tensor([1., 1.])",
    ]
    assert done.returncode == 0 and not done.stderr


def test_modules_beside_the_script_are_imported(launched, tmp_path):
    (tmp_path / "parts.py").write_text("import torch\nvalue = torch.float16")
    (tmp_path / "train.py").write_text("import parts\nprint(parts.value)")
    assert launched(command=(tmp_path / "train.py",)).stdout == "torch.float16\n"


def test_a_module_is_run_by_its_name(launched, tmp_path):
    package = tmp_path / "tool"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text(SCRIPT)
    done = launched(command=("-m", "tool", "x"), cwd=tmp_path)
    main = package / "__main__.py"
    assert done.stdout.splitlines()[0] == (
        f"[{str(main)!r}, 'x'] __main__ {main} {tmp_path}"
    ), done.stderr


def test_code_on_the_command_line_is_run(printed):
    lines = printed("import sys; print(sys.argv, __name__)", "a", "-b")
    assert lines == ["['-c', 'a', '-b'] __main__"]


def test_a_program_may_come_from_the_standard_input(launched):
    done = launched(command=("-", "a"), input="import torch, sys\nprint(sys.argv)")
    assert done.stdout == "['-', 'a']\n"


STATUSES = [
    ("raise SystemExit(7)", 7),
    ("import sys; sys.exit('no')", 1),
    ("1 / 0", 1),
    ("pass", 0),
]


@pytest.mark.parametrize("text, status", STATUSES)
def test_the_exit_status_is_the_program_s(launched, text, status):
    assert launched(text).returncode == status


def test_a_traceback_starts_at_the_user_s_script(launched, tmp_path):
    path = tmp_path / "train.py"
    path.write_text(
        "import torch\n\ndef step():\n    torch.ones(2) @ torch.ones(3)\n\nstep()"
    )
    done = launched(command=(path,))
    lines = done.stderr.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1] == f'  File "{path}", line 6, in <module>'
    assert "front/run.py" not in done.stderr
    assert lines[-1].startswith("RuntimeError") or "RuntimeError" in done.stderr


def test_a_syntax_error_names_the_script_and_line(launched, tmp_path):
    path = tmp_path / "train.py"
    path.write_text("x = (\n")
    done = launched(command=(path,))
    assert done.returncode == 1
    assert f'File "{path}", line 1' in done.stderr
    assert "front/run.py" not in done.stderr


def test_a_hook_for_exceptions_is_the_program_s_own(launched):
    done = launched(
        "import sys\nsys.excepthook = lambda *e: print('hook', e[0].__name__)\n1 / 0"
    )
    assert done.stdout == "hook ZeroDivisionError\n"


@pytest.mark.parametrize("command", [("nothing.py",), ("-m",), ()])
def test_a_command_without_a_program_ends_with_status_2(launched, command, tmp_path):
    done = launched(command=command, cwd=tmp_path)
    assert done.returncode == 2 and done.stderr


CHILD = """
import multiprocessing, torch

def work(queue):
    queue.put((repr(torch.float32), torch.ones(2).sum().item()))

if __name__ == "__main__":
    for how in {kinds}:
        context = multiprocessing.get_context(how)
        queue = context.Queue()
        child = context.Process(target=work, args=(queue,))
        child.start()
        print(how, queue.get(timeout=60))
        child.join()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="it has one way to start processes")
def test_child_processes_know_the_names_however_they_start(launched, tmp_path):
    path = tmp_path / "train.py"
    path.write_text(CHILD.format(kinds=["spawn", "forkserver", "fork"]))
    done = launched(command=(path,))
    assert done.stdout.splitlines() == [
        "spawn ('torch.float32', 2.0)",
        "forkserver ('torch.float32', 2.0)",
        "fork ('torch.float32', 2.0)",
    ], done.stderr


def test_what_is_the_packages_own_is_told_under_either_name(launched, tmp_path):
    path = Path(__file__).parent / "programs" / "own_names.py"
    plain = tmp_path / "plain.py"
    text = path.read_text().replace("import torch\n", "import rushlight as torch\n")
    plain.write_text(text.replace("from torch import", "from rushlight import"))
    command = [sys.executable, "-W", "ignore", str(plain)]
    expected = subprocess.run(command, capture_output=True, text=True)
    assert launched(command=(path,)).stdout == expected.stdout, expected.stderr
    assert len(expected.stdout.splitlines()) > 30
