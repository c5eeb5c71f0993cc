"""Writes the records of docstrings, which are loaded when the first one is asked for."""

_HEAD = '"""What docstrings say, by operator; written by opgen."""\n\n'


def write_docs(records):
    """The text of the module of records, a line for each name."""
    rows = "".join(f"    {name!r}: {record!r},\n" for name, record in records.items())
    return f"{_HEAD}DOCS = {{\n{rows}}}\n"
