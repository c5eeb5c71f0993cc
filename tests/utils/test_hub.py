"""Models from a folder, run only while the folder is what it was."""

import pytest

from rushlight import hub


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "hubconf.py").write_text(
        "from parts import twice\n"
        "dependencies = ['math']\n"
        "def model(x, more=0):\n"
        '    """Twice, and more."""\n'
        "    return twice(x) + more\n"
    )
    (tmp_path / "parts.py").write_text("def twice(x): return 2 * x\n")
    return str(tmp_path)


def test_a_model_is_loaded_listed_and_described(folder):
    assert hub.load(folder, "model", 3, more=1, source="local") == 7
    assert "model" in hub.list(folder)
    assert hub.help(folder, "model") == "Twice, and more."
    with pytest.raises(RuntimeError, match="Cannot find callable other"):
        hub.load(folder, "other", source="local")


def test_a_folder_that_has_changed_is_not_run(folder, tmp_path):
    known = hub.checksum_of(folder)
    assert hub.load(folder, "model", 1, source="local", checksum=known.upper()) == 2
    assert hub.checksum_of(folder) == known  # what Python has kept there is left out
    (tmp_path / "parts.py").write_text("raise SystemExit('ran')\n")
    with pytest.raises(RuntimeError, match="is not what it was"):
        hub.load(folder, "model", 1, source="local", checksum=known)
    (tmp_path / "parts.py").write_text("def twice(x): return 2 * x\n")
    assert hub.checksum_of(folder) == known
    (tmp_path / "parts.py").rename(tmp_path / "other.py")
    assert hub.checksum_of(folder) != known


def test_names_on_the_net_are_not_fetched(folder):
    with pytest.raises(NotImplementedError, match="clone the repository"):
        hub.load("owner/name", "model")
    with pytest.raises(ValueError, match="Unknown source"):
        hub.load(folder, "model", source="elsewhere")
