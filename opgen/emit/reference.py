"""Writes the reference: one page for each family of operators, and an index."""

from opgen.documents import docstrings, form, groups, records

_DERIVED = {
    "function": "function", "method": "method", "inplace": "in-place form",
    "out": "`out=` form",
}  # fmt: skip


def write_pages(entries):
    """Page text by file name."""
    families = {}
    for entry in entries:
        families.setdefault(entry.family, []).append(entry)
    known = records(entries)
    texts = {
        name: docstrings.compose(
            docstrings.resolve(name, known), rows[0].python_name, [*map(form, rows)]
        )
        for name, rows in groups(entries).items()
    }
    pages = {
        f"{family}.md": _page(family, rows, texts) for family, rows in families.items()
    }
    pages["index.md"] = _index(families)
    return pages


def _index(families):
    lines = ["# Operators", "", "Every operator, by the file that declares it.", ""]
    for family, entries in sorted(families.items()):
        names = dict.fromkeys(e.name for e in entries if not e.name.startswith("_"))
        links = ", ".join(f"[`{name}`]({family}.md#{name.lower()})" for name in names)
        lines += [f"## [{family}]({family}.md)", "", links, ""]
    return "\n".join(lines)


def _page(family, entries, texts):
    lines = [f"# {family.replace('_', ' ').capitalize()}", ""]
    last = None
    for entry in entries:
        if entry.name != last:
            lines += [f"## {entry.name}", "", "```text", texts[entry.name] + "```", ""]
        last = entry.name
        lines += _section(entry)
    return "\n".join(lines)


def _section(entry):
    lines = ["```", str(entry.schema), "```", ""]
    forms = ", ".join(_DERIVED[variant] for variant in entry.variants)
    where = "rushlight" + (f".{entry.namespace}" if entry.namespace else "")
    rows = [f"- In `{where}` as: {forms or 'internal operator'}."]
    if entry.operators:
        rows.append(
            "- Python operators: " + ", ".join(f"`{o}`" for o in entry.operators)
        )
    if entry.rule:
        rows.append(f"- Result's dtype: `{entry.rule}`.")
    rows.append(f"- Computed by: {entry.kind} `{entry.function}`.")
    for formula in entry.derivative:
        names = ", ".join(formula.arguments)
        rows.append(f"- Gradient of {names}: `{formula.text}`.")
    rows.append(f"- Declared at `{entry.location}`.")
    return [*lines, *rows, ""]
