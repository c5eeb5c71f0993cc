"""Archives of programs: what is damaged, hostile or foreign is refused by name."""

import io
import pickle
import re
import zipfile

import pytest

import rushlight as rl
from rushlight import nn


def archive():
    file = io.BytesIO()
    rl.jit.save(rl.jit.script(nn.Linear(2, 2)), file)
    return file.getvalue()


# The class is written under another name where some program had a `Linear` before.
LINEAR = r"/linear(/___torch_mangle_\d+)?\.py"


def changed(name, content):
    """The archive with one record changed, or left out where it is None."""
    made, found = io.BytesIO(), 0
    with (
        zipfile.ZipFile(io.BytesIO(archive())) as old,
        zipfile.ZipFile(made, "w") as new,
    ):
        for info in old.infolist():
            data = old.read(info)
            if re.search(f"{name}$", info.filename):
                found += 1
                if content is None:
                    continue
                data = content(data) if callable(content) else content
            new.writestr(info, data)
    assert found == 1
    made.seek(0)
    return made


@pytest.mark.parametrize("length", [0, 10, 100, 500, 1000])
def test_archives_that_were_cut_short_are_refused(length):
    with pytest.raises(RuntimeError):
        rl.jit.load(io.BytesIO(archive()[:length]))


def test_checkpoints_are_no_programs():
    file = io.BytesIO()
    rl.save({"a": rl.ones(2)}, file)
    file.seek(0)
    with pytest.raises(RuntimeError, match="holds no program"):
        rl.jit.load(file)


class Runs:
    def __reduce__(self):
        return print, ("this ran",)


def test_nothing_of_an_archive_is_called(capsys):
    hostile = changed(r"/data\.pkl", pickle.dumps(Runs(), protocol=2))
    with pytest.raises(RuntimeError, match="data.pkl is not read"):
        rl.jit.load(hostile)
    assert "this ran" not in capsys.readouterr().out


def test_text_of_an_archive_is_never_run_as_python(capsys):
    def with_import(data):
        return data.replace(
            b"return", b"_0 = __import__('os').system('true')\n    return"
        )

    with pytest.raises(RuntimeError, match="undefined value __import__"):
        rl.jit.load(changed(LINEAR, with_import))


def test_code_that_is_no_code_is_refused():
    with pytest.raises(RuntimeError, match="is damaged"):
        rl.jit.load(changed(LINEAR, b"class Linear(Module:\n"))
    with pytest.raises(RuntimeError, match="is damaged: 'utf-8' codec"):
        rl.jit.load(changed(LINEAR, b"class \xffLinear(Module):\n"))
    with pytest.raises(RuntimeError):
        rl.jit.load(changed(LINEAR, None))
    with pytest.raises(RuntimeError):
        rl.jit.load(changed("data/0", b"\0"))


def test_unknown_operators_are_named():
    def with_other(data):
        return data.replace(b"torch.linear", b"torch.not_an_operator")

    with pytest.raises(RuntimeError, match="Unknown builtin op: aten::not_an_operator"):
        rl.jit.load(changed(LINEAR, with_other))


def test_extra_files_travel():
    file = io.BytesIO()
    rl.jit.save(
        rl.jit.script(nn.Linear(2, 2)), file, _extra_files={"note.txt": "hello"}
    )
    file.seek(0)
    extra = {"note.txt": ""}
    rl.jit.load(file, _extra_files=extra)
    assert extra == {"note.txt": "hello"}


def test_names_of_missing_files_are_refused(tmp_path):
    with pytest.raises(ValueError, match="does not exist"):
        rl.jit.load(tmp_path / "nothing.pt")
    with pytest.raises(ValueError, match="is a directory"):
        rl.jit.load(tmp_path)
