"""``FileCheck``: that a text has patterns in an order, as LLVM's tool of that name asks."""

from __future__ import annotations

import re
from typing import NamedTuple

_COMMENT = re.compile(r"#\s*(?:CHECK)([A-Z\-]*?)(?:-(\d+))?:\s?(.*)")
_KINDS = (
    *("", "-NOT", "-SAME", "-NEXT", "-COUNT", "-COUNT-EXACTLY", "-DAG"),
    *("-SOURCE-HIGHLIGHTED", "-REGEX"),
)
_SHOWN_LINES = 3


class _Check(NamedTuple):
    """One pattern: where it may stand hangs on the kind."""

    kind: str
    text: str
    count: int = 1

    def name(self):
        """The pattern as a line of comments would have it."""
        count = f"-{self.count}" if self.kind.startswith("-COUNT") else ""
        return f"CHECK{self.kind}{count}: {self.text}"


class FileCheck:
    """Patterns that a text has to have, one after the other; every method returns self.

    >>> FileCheck().check("mul").check_not("div").check("add").run("mul, then add")
    """

    def __init__(self):
        self._checks: list[_Check] = []

    def __repr__(self):
        return "<rushlight.FileCheck object>"

    def _add(self, kind, text, count=1):
        self._checks.append(_Check(kind, text, count))
        return self

    def check(self, text):
        """The text is found behind the last one."""
        return self._add("", text)

    def check_not(self, text):
        """The text is not found between the last one and the next."""
        return self._add("-NOT", text)

    def check_same(self, text):
        """The text is found behind the last one, on its line."""
        return self._add("-SAME", text)

    def check_next(self, text):
        """The text is found behind the last one, on the next line."""
        return self._add("-NEXT", text)

    def check_count(self, text, count, exactly=False):
        """The text is found so many times behind the last one.

        Args:
            text: what is looked for.
            count: how often.
            exactly: whether it may not be found once more.
        """
        if count == 0 and not exactly:
            raise RuntimeError("check_count: a count of 0 asks for nothing")
        return self._add("-COUNT-EXACTLY" if exactly else "-COUNT", text, count)

    def check_dag(self, text):
        """Texts of a row of such checks are found behind the last one in any order."""
        return self._add("-DAG", text)

    def check_source_highlighted(self, text):
        """The text is found, and the line below underlines it with tildes."""
        return self._add("-SOURCE-HIGHLIGHTED", text)

    def check_regex(self, text):
        """The regular expression is found behind the last one."""
        return self._add("-REGEX", text)

    def run(self, *texts):
        """Looks for the patterns in a text.

        Args:
            texts: the text; or comments ``# CHECK: pattern``, and the text.

        Raises:
            RuntimeError: a pattern is not where it should be, or there is none.
            TypeError: something else than one or two strings is given.
        """
        if not (1 <= len(texts) <= 2 and all(isinstance(t, str) for t in texts)):
            raise TypeError(
                "run(): incompatible function arguments: expected a text, or comments "
                f"and a text, but got {', '.join(type(t).__name__ for t in texts)}"
            )
        checks = self._checks + (_from_comments(texts[0]) if len(texts) == 2 else [])
        if not checks:
            raise RuntimeError(
                "No checks have been added to this instance of Filecheck! Check for bad "
                "input."
            )
        _Search(texts[-1]).run(_groups(checks))


def _from_comments(text):
    """The checks that comments of a text ask for."""
    checks = []
    for line in text.splitlines():
        found = _COMMENT.search(line)
        if found is None:
            continue
        kind, count, pattern = found.groups()
        if kind not in _KINDS or (count is None) is kind.startswith("-COUNT"):
            raise RuntimeError(f"Could not parse check: {line.strip()}")
        checks.append(_Check(kind, pattern.strip(), int(count or 1)))
    return checks


def _groups(checks):
    """Rows of checks that are looked at together: those in any order, and exclusions."""
    groups: list[list[_Check]] = []
    for check in checks:
        joined = check.kind in ("-DAG", "-NOT")
        if joined and groups and groups[-1][0].kind == check.kind:
            groups[-1].append(check)
        else:
            groups.append([check])
        if check.kind == "-COUNT-EXACTLY":
            groups.append([_Check("-NOT", check.text)])
    return groups


def _compiled(pattern):
    try:
        return re.compile(pattern)
    except re.error as error:
        raise RuntimeError(f"{error} in regular expression {pattern!r}") from None


class _Search:
    """One text, and the part of it where the last pattern was found."""

    def __init__(self, text):
        self.text = text
        self.start = self.end = 0

    def run(self, groups):
        """Looks for all groups; exclusions hold up to where the next group is found."""
        excluded: list[_Check] = []
        for group in groups:
            if group[0].kind == "-NOT":
                excluded += group
                continue
            last = self.end
            self.match(group)
            self.exclude(excluded, last, self.start)
            excluded = []
        self.exclude(excluded, self.end, len(self.text))

    def exclude(self, checks, begin, end):
        """Refuses patterns between two places."""
        for check in checks:
            self.refuse(check, check.text, begin, end)

    def refuse(self, check, text, begin, end):
        """Refuses a text between two places, for a check's sake."""
        at = self.text.find(text, begin, end)
        if at >= 0:
            shown = "\\n" if text == "\n" else text
            self.fail(f'Expected to not find "{shown}" but found it', at, check)

    def find(self, check, text, begin):
        """The place of a text behind another one."""
        at = self.text.find(text, begin)
        if at < 0:
            shown = "\\n" if text == "\n" else text
            words = f'Expected to find "{shown}" but did not find it\nSearched string:'
            self.fail(words, begin, check)
        return at

    def match(self, group):
        """Finds a group behind the last one, and makes it the last one."""
        check, last = group[0], self.end
        if check.kind == "-DAG":
            positions = [(self.find(one, one.text, last), one) for one in group]
            self.start = min(at for at, _ in positions)
            self.end = max(at + len(one.text) for at, one in positions)
        elif check.kind == "-REGEX":
            found = _compiled(check.text).search(self.text, last)
            if found is None:
                words = f'Expected to find regex "{check.text}" but did not find it'
                self.fail(f"{words}\nSearched string:", last, check)
            self.start, self.end = found.span()
        elif check.kind.startswith("-COUNT"):
            self.start = self.end = last
            for number in range(check.count):
                at = self.find(check, check.text, self.end)
                self.start = at if number == 0 else self.start
                self.end = at + len(check.text)
        else:
            self.start = self.find(check, check.text, last)
            self.end = self.start + len(check.text)
            self.check_place(check, last)

    def check_place(self, check, last):
        """Refuses a text on another line than its check asks for, or not underlined."""
        if check.kind == "-SAME":
            self.refuse(check, "\n", last, self.start)
        elif check.kind == "-NEXT":
            line = self.find(check, "\n", last)
            self.refuse(check, "\n", line + 1, self.start)
            if line > self.start:
                words = 'Expected to find "\\n" but did not find it\nSearched string:'
                self.fail(words, last, check)
        elif check.kind == "-SOURCE-HIGHLIGHTED":
            column = self.start - (self.text.rfind("\n", 0, self.start) + 1)
            _, _, below = self.text[self.end :].partition("\n")
            marks = below.partition("\n")[0][column : column + len(check.text)]
            if marks != "~" * len(check.text):
                words = f'Expected to find "{check.text}" highlighted but it is not.'
                self.fail(words, self.start, check)

    def fail(self, words, at, check):
        """Says what is wrong, around which lines, and which check asks for it."""
        begin = self.text.rfind("\n", 0, at) + 1
        lines = self.text[begin:].split("\n")[:_SHOWN_LINES]
        shown = "\n".join(lines)
        raise RuntimeError(f"{words}\n{shown}\nFrom {check.name()}")
