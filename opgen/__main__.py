"""``python -m opgen`` writes ``rushlight/_generated``; ``--docs``, the reference."""

import argparse
import sys
from pathlib import Path

from opgen import enums
from opgen.check import check
from opgen.documents import records
from opgen.emit.derivatives import derivative_of, write_family
from opgen.emit.docs import write_docs
from opgen.emit.reference import write_pages
from opgen.emit.stubs import write_functions, write_methods
from opgen.emit.tables import write_tables
from opgen.emit.tests import write_samples
from opgen.parse import Faults, parse_folder
from opgen.sources import ROOT


def main(argv=None):
    """Generate; the exit status is 1 if a declaration has a fault."""
    parser = argparse.ArgumentParser(prog="python -m opgen", description=__doc__)
    parser.add_argument("--check", action="store_true", help="only report faults")
    parser.add_argument("--docs", action="store_true", help="write docs/reference too")
    options = parser.parse_args(argv)
    entries, faults = load()
    if faults.messages:
        print("\n".join(faults.messages), file=sys.stderr)
        print(f"opgen: {len(faults.messages)} faults", file=sys.stderr)
        return 1
    if not options.check:
        generate(entries, ROOT / "rushlight" / "_generated")
        _write(enums.PLACE, enums.declared())
    if options.docs:
        for name, text in write_pages(entries).items():
            _write(ROOT / "docs" / "reference" / name, text)
    return 0


def load(folder=ROOT / "rushlight" / "operators"):
    """The checked entries of the declaration files, and the faults in them."""
    faults = Faults()
    entries = parse_folder(folder, faults, ROOT)
    check(entries, faults)
    return entries, faults


def generate(entries, target):
    """Write the tables, the derivatives and the stubs into ``target``."""
    operators = {entry.name for entry in entries}
    derivatives = [derivative_of(entry, operators) for entry in entries]
    _write(target / "__init__.py", '"""Made from the declarations by opgen."""\n')
    _write(target / "tables.py", write_tables(entries, derivatives))
    documented = records(entries)
    _write(target / "docs.py", write_docs(documented))
    families = {}
    for entry, derivative in zip(entries, derivatives):
        if derivative is not None:
            families.setdefault(entry.family, []).append(derivative)
    package = target / "derivatives"
    _write(package / "__init__.py", '"""Derivative functions, a module a family."""\n')
    for family, functions in families.items():
        _write(package / f"{family}.py", write_family(family, functions))

    _write(target / "samples.py", write_samples(entries))
    _write(target / "methods.pyi", write_methods(entries, documented))
    for namespace in sorted({entry.namespace or "" for entry in entries}):
        name = namespace.split(".")[-1] or "functions"
        text = write_functions(entries, namespace or None, documented)
        _write(target / f"{name}.pyi", text)


def _write(path, text):
    """Write ``text`` unless the file holds it already: its time stamp stays then."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


if __name__ == "__main__":
    sys.exit(main())
