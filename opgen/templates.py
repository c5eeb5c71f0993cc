"""Entries that are written for several operators: of lists, and of copies of views.

An entry with ``each:`` stands for one of each of several names. They are listed there,
``each: [exp, log]``, or ``each: {maximum: clamp_min}`` with a value for each; or ``each``
is a word, and the names are those of the operators whose own entries say it:
``also: [foreach]``, or ``also: [foreach(clamp_min)]`` with a value.

In the texts of such an entry stand in braces:

name, value
    the name, and its value, by default the name.
keywords
    the arguments that the operator takes by keyword alone, with what separates them.
copy
    the operator's signature as one that copies: another name, and nothing shared.
_
    nothing, or ``_``: where ``op`` has it after the name, the form follows that writes to
    the list ``self``.
"""

import yaml

from opgen.also import filled


def fields(node):
    """Key -> node of an entry."""
    pairs = node.value if isinstance(node, yaml.MappingNode) else ()
    return {key.value: value for key, value in pairs}


def words_of(node, sources):
    """For each entry that a node stands for, what is put in the place of which word.

    Args:
        node: the node.
        sources: what `opgen.also.sources_of` gives.
    """
    said = fields(node)
    if "each" not in said:
        return [{}]
    each = said["each"]
    if isinstance(each, yaml.ScalarNode):
        listed = sources.get(each.value, [])
    else:
        pairs = (one if isinstance(one, tuple) else (one, one) for one in each.value)
        listed = [
            {"{name}": name.value, "{value}": value.value} for name, value in pairs
        ]
    forms = ("", "_") if "{_}" in getattr(said.get("op"), "value", "") else ("",)
    return [{**words, "{_}": form} for words in listed for form in forms]


def filled_node(node, words, key=""):
    """A node with words put into its texts; those of a form in place say so."""
    if isinstance(node, yaml.ScalarNode):
        text = node.value
        if words["{_}"] and key == "op":
            text = text.replace("Tensor[] self", "Tensor(a!)[] self", 1)
            text = text.partition("->")[0] + "-> ()"
        if words["{_}"] and key == "doc":
            text = text.removesuffix(".") + ", in place."
        text = filled(text, words)
        return yaml.ScalarNode(node.tag, text, node.start_mark, node.end_mark)
    if isinstance(node, yaml.SequenceNode):
        value = [filled_node(item, words) for item in node.value]
    else:
        value = [
            (name, filled_node(item, words, name.value))
            for name, item in node.value
            if name.value != "each"
        ]
    return type(node)(node.tag, value, node.start_mark, node.end_mark)
