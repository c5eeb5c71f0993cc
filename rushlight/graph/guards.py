"""Which code runs while a module is called, and what that code finds by name."""

import builtins
import sys
from types import FunctionType, ModuleType

from rushlight.core import naming
from rushlight.core.tensor import Tensor
from rushlight.graph.function_facts import facts_of

# Functions of C that do nothing but give something, and are not the package's.
_QUIET = ("builtins", "_operator", "math", "_functools", "_abc", "itertools", None)
_PLAIN = ("abc", "_collections_abc")  # modules of Python's that only look
_LOUD = ("print", "open", "input", "setattr", "delattr", "exec", "eval", "compile")
_LOUD += ("__import__", "globals", "locals", "vars", "breakpoint")

# What plain code of a user's may call by these names (`rushlight.graph.plain_code`).
BUILTINS = frozenset(
    """
    abs all any bool divmod enumerate float int isinstance len list map max min pow range
    reversed round slice sorted str sum super tuple zip
    AssertionError NotImplementedError RuntimeError TypeError ValueError
    """.split()
)
_METHODS = {
    list: ("append", "extend", "insert", "pop", "reverse", "copy"),
    dict: ("get", "items", "keys", "values", "pop", "update", "copy"),
}
_VALUES = (tuple, str, int, float, range, slice, Tensor)

# Attributes of modules that no call reads: they are not compared.
UNREAD = (
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
    "_non_persistent_buffers_set",
)


class Unproven(Exception):
    """A call may hang on more than is looked at."""


def is_plain_call(function):
    """Whether a function of C that plain code calls does nothing but give something.

    Lists and tables that it changes are its own, or are compared after the call.
    """
    owner = getattr(function, "__self__", None)
    if getattr(function, "__module__", None) in ("builtins", "math"):
        return function.__name__ in BUILTINS or function.__module__ == "math"
    if isinstance(owner, _VALUES):
        return True
    return function.__name__ in _METHODS.get(type(owner), ())


class CodeProfiler:
    """A profile function that keeps which code ran, and whether it is known what it does."""

    watches_program = True  # logs are none of it

    def __init__(self):
        self.codes: dict = {}
        self.others: set = set()  # code of a user's
        self.strange = ""

    def __call__(self, frame, event, arg):
        if event == "call":
            name = frame.f_globals.get("__name__", "")
            if naming.is_own(name) or name in _PLAIN:
                self.codes[frame.f_code] = frame.f_globals
            else:
                self.others.add(frame.f_code)
        elif event == "c_call":
            home = getattr(arg, "__module__", None)
            if arg is sys.setprofile or arg is sys.getprofile:
                return
            if frame.f_code in self.others:
                if not is_plain_call(arg):
                    self.strange = self.strange or arg.__name__
            elif home not in _QUIET and not naming.is_own(home):
                self.strange = self.strange or f"{home}.{arg.__name__}"
            elif home == "builtins" and arg.__name__ in _LOUD:
                self.strange = self.strange or arg.__name__


class Names:
    """What code finds by name: where, under which name, and what it was."""

    def __init__(self, words):
        self.words = words
        self.positions: dict = {}
        self.functions: dict = {}
        self.types: dict = {}
        self.cells: list = []

    def code(self, code, names):
        """Takes in what a piece of code may look up."""
        dynamic = "getattr" in code.co_names
        words = [*code.co_names, *(self.words if dynamic else ())]
        for name in code.co_names:
            if name in names:
                self.place(names, name)
                self.value(names[name], words)
            elif hasattr(builtins, name):
                self.place(names, name)
                self.place(vars(builtins), name)
        for inner in code.co_consts:
            if isinstance(inner, type(code)):
                self.code(inner, names)

    def methods(self, kinds, codes):
        """Takes in the methods that ran."""
        for kind in kinds:
            for base in kind.__mro__:
                for item in vars(base).values():
                    if isinstance(item, FunctionType) and item.__code__ in codes:
                        self.function(item)

    def function(self, function):
        """Takes in a function."""
        self.functions[function] = facts_of(function)

    def place(self, names, name):
        self.positions[id(names), name] = names, name, names.get(name, Unproven)

    def value(self, value, words):
        """Takes in what is reached through a name."""
        if isinstance(value, ModuleType):
            inside = vars(value)
            for word in words:
                if (id(inside), word) not in self.positions and word in inside:
                    self.place(inside, word)
                    self.value(inside[word], words)
        elif isinstance(value, FunctionType):
            self.function(value)
        elif isinstance(value, type):
            self.types[value] = True
        elif type(value).__name__ == "cython_function_or_method":
            # what others compiled is not seen to run
            if not naming.is_own(value.__module__):
                raise Unproven("compiled code of somebody else's")
