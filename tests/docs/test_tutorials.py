"""The tutorials print on PyTorch what they print here: only the import is another."""

from __future__ import annotations

import os

import pytest

from tools.doctests import ROOT, Page

pytest.importorskip("torch", reason="the oracle is not installed")

# Those on data and transforms have `datasets` and `transforms`, another package there.
PAGES = ["tensors", "build_model", "autograd"]
if os.environ.get("SWEEP"):  # optimizers take PyTorch's compiler along: seconds
    PAGES += ["optimization", "save_load", "recipes"]
CHANGED = {
    "import rushlight as torch": "import torch",
    "from rushlight": "from torch",
    "rushlight.": "torch.",
    "torch.compile(model)": "model",  # takes a compiler of C++ there, and seconds
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PAGES)
def test_the_tutorial_prints_the_same_on_pytorch(name, tmp_path):
    text = (ROOT / "docs" / "tutorials" / f"{name}.md").read_text()
    for ours, theirs in CHANGED.items():
        text = text.replace(ours, theirs)
    assert "rushlight" not in text.replace("Rushlight", "")
    (tmp_path / "page.md").write_text(text)
    page = Page(tmp_path / "page.md").run()
    assert not page.faults, "\n".join(page.faults)
