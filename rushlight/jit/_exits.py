"""Functions whose ``return``, ``break`` and ``continue`` end only what contains them.

Graphs have no jumps. What follows a branch that leaves moves into the other branch;
where a branch may leave or not, a flag says whether what follows is run.
"""

import ast
import copy

NEVER, SOMETIMES, ALWAYS, RAISES = range(4)

RESULT = "__return_value"
RETURNED = "__did_return"
GOES_ON = "__goes_on"


def _left(statement, in_loop):
    if isinstance(statement, ast.Return):
        return ALWAYS
    if isinstance(statement, ast.Raise):
        return RAISES
    if isinstance(statement, (ast.Break, ast.Continue)):
        return ALWAYS
    if isinstance(statement, ast.If):
        pair = leaves(statement.body), leaves(statement.orelse)
        if min(pair) >= ALWAYS:
            return RAISES if min(pair) == RAISES and max(pair) == RAISES else ALWAYS
        return SOMETIMES if max(pair) in (SOMETIMES, ALWAYS) else NEVER
    if isinstance(statement, (ast.For, ast.While)):
        return SOMETIMES if _returns(statement) else NEVER
    if isinstance(statement, ast.With):
        return leaves(statement.body)
    return NEVER


def leaves(statements, in_loop=False):
    """How often the statements leave what they stand in."""
    found = NEVER
    for statement in statements:
        kind = _left(statement, in_loop)
        if kind >= ALWAYS:
            return kind if found == NEVER else ALWAYS
        found = max(found, kind)
    return found


def _returns(tree):
    """Whether there is a ``return`` inside, functions inside left out."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.Return):
            return True
        if not isinstance(child, (ast.FunctionDef, ast.Lambda)) and _returns(child):
            return True
    return False


def _jumps(statements):
    """Whether ``break`` or ``continue`` of this loop stand inside."""
    for statement in statements:
        if isinstance(statement, (ast.Break, ast.Continue)):
            return True
        if isinstance(statement, (ast.For, ast.While)):
            continue
        for part in ("body", "orelse"):
            if _jumps(getattr(statement, part, [])):
                return True
    return False


def _at(tree, like):
    ast.copy_location(tree, like)
    ast.fix_missing_locations(tree)
    return tree


def _set(name, value, like):
    target = ast.Name(name, ast.Store())
    return _at(ast.Assign([target], value), like)


def _read(name, like):
    return _at(ast.Name(name, ast.Load()), like)


def _truth(value, like):
    return _at(ast.Constant(value), like)


class Rewriter:
    """Rewrites one function's statements."""

    def __init__(self):
        self.in_loop = 0

    def function(self, statements, like):
        """The statements, with one ``return`` at the end."""
        statements = copy.deepcopy(statements)
        kind = leaves(statements)
        if kind not in (ALWAYS, RAISES):
            statements.append(_at(ast.Return(_truth(None, like)), like))
            statements[-1].implicit = True
        done = self.block(statements)
        if kind == RAISES:
            return done
        return [*done, _at(ast.Return(_read(RESULT, like)), like)]

    def block(self, statements):
        """The statements without jumps."""
        done = []
        for at, statement in enumerate(statements):
            rest = statements[at + 1 :]
            if isinstance(statement, ast.Return):
                return done + self.leave(statement)
            if isinstance(statement, (ast.Break, ast.Continue)):
                on = isinstance(statement, ast.Continue)
                return [*done, _set(GOES_ON, _truth(on, statement), statement)]
            if isinstance(statement, ast.Raise):
                return [*done, statement]
            kind = _left(statement, self.in_loop)
            if isinstance(statement, ast.If) and kind != NEVER:
                return done + self.branch(statement, rest)
            if isinstance(statement, (ast.For, ast.While)):
                returns = _returns(statement)
                done += self.loop(statement)
                if returns:
                    return done + self.after(statement, rest)
                continue
            if isinstance(statement, ast.With) and kind != NEVER:
                statement.body = self.block(statement.body)
                return [*done, statement]
            if isinstance(statement, (ast.If, ast.With)):
                statement.body = self.block(statement.body)
                if isinstance(statement, ast.If):
                    statement.orelse = self.block(statement.orelse)
            done.append(statement)
        return done

    def leave(self, statement):
        value = statement.value or _truth(None, statement)
        done = [_set(RESULT, value, statement)]
        done[0].is_result = True
        if self.in_loop:
            done.append(_set(RETURNED, _truth(True, statement), statement))
            done.append(_set(GOES_ON, _truth(False, statement), statement))
        return done

    def branch(self, statement, rest):
        ways = leaves(statement.body), leaves(statement.orelse)
        if ways[0] >= ALWAYS:
            statement.body = self.block(statement.body)
            statement.orelse = self.block(statement.orelse + rest)
            return [statement]
        if ways[1] >= ALWAYS:
            statement.orelse = self.block(statement.orelse)
            statement.body = self.block(statement.body + rest)
            return [statement]
        if not rest:
            statement.body = self.block(statement.body)
            statement.orelse = self.block(statement.orelse)
            return [statement]
        statement.body = self.block(statement.body + copy.deepcopy(rest))
        statement.orelse = self.block(statement.orelse + rest)
        return [statement]

    def loop(self, statement):
        if statement.orelse:
            statement.else_refused = True
        jumps = _jumps(statement.body)
        returns = _returns(statement)
        self.in_loop += 1
        body = self.block(statement.body)
        self.in_loop -= 1
        before = []
        if jumps or returns:
            body.insert(0, _set(GOES_ON, _truth(True, statement), statement))
            statement.jumps = True
        statement.body = body
        if returns:
            before.append(_set(RETURNED, _truth(False, statement), statement))
        return [*before, statement]

    def after(self, statement, rest):
        """What follows a loop that may return."""
        if self.in_loop:
            inner = [_set(GOES_ON, _truth(False, statement), statement)]
        else:
            inner = [_at(ast.Pass(), statement)]
        test = _read(RETURNED, statement)
        chosen = _at(
            ast.If(test, inner, self.block(rest) or [_at(ast.Pass(), statement)]),
            statement,
        )
        return [chosen]
