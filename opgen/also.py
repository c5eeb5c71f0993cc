"""What declarations say that others are made of: ``also: [foreach, foreach_tensor]``.

Read from a file's text, without YAML, so that small tools can ask.
"""

import re

_ENTRY = re.compile(r"^- op: (?P<op>.*)\n(?:  .*\n)*?  also: \[(?P<also>.*)\]\n", re.M)
_SIGNATURE = re.compile(
    r"(?P<name>\w+)(?P<overload>\.\w+)?\((?P<args>.*)\) -> (?P<rest>.*)"
)


def sources_of(text):
    """Word -> what is put in the place of which word, for each operator that says it.

    Args:
        text: a declaration file.

    >>> text = "- op: rsub(Tensor(a) self, *, int b) -> Tensor\\n  also: [copies(sub)]\\n"
    >>> (words,) = sources_of(text)["copies"]
    >>> words["{name}"], words["{value}"], words["{keywords}"], words["{copy}"]
    ('rsub', 'sub', ', *, int b', 'rsub_copy(Tensor self, *, int b) -> Tensor')
    """
    found = {}
    for entry in _ENTRY.finditer(text):
        parts = _SIGNATURE.match(re.sub(r"\(\w!?\)", "", entry["op"]))
        name, args = parts["name"], parts["args"]
        star = args.find(", *, ")
        for one in entry["also"].split(", "):
            word, _, value = one.partition("(")
            words = {
                "{name}": name,
                "{value}": value.removesuffix(")") or name,
                "{keywords}": args[star:] if star >= 0 else "",
                "{copy}": f"{name}_copy{parts['overload'] or ''}({args}) -> {parts['rest']}",
            }
            found.setdefault(word, []).append(words)
    return found


def sources_below(folder):
    """The same of every declaration file below a folder, by the files' names."""
    found = {}
    for path in sorted(folder.rglob("*.yaml"), key=lambda path: path.stem):
        for word, listed in sources_of(path.read_text()).items():
            found.setdefault(word, []).extend(listed)
    return found


def filled(text, words):
    """A text with words in their places."""
    for word, value in words.items():
        text = text.replace(word, value)
    return text
