"""Which code of a user's is plain: it asks for operators and modules, and does nothing beside.

Of the package's own code it is known what it does; of anybody else's, nothing. So each
instruction has to be one of those that keep to the frame's own values, each name has to lead
to an operator, a constant or to other plain code, and each attribute has to be one that
tensors always have, or one of a module, all of which are compared before a call is left out.
"""

import dis
from functools import lru_cache
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType

from rushlight.core import naming
from rushlight.core.tensor import Tensor
from rushlight.dispatch.overridable import Attribute, Overridable
from rushlight.dispatch.packet import MethodPacket, OperatorPacket
from rushlight.graph.guards import BUILTINS, UNREAD, Unproven, is_plain_call
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import Parameter

_INSTRUCTIONS = frozenset(
    """
    NOP CACHE RESUME EXTENDED_ARG COPY SWAP POP_TOP PUSH_NULL PRECALL CALL KW_NAMES
    CALL_FUNCTION_EX DICT_MERGE LOAD_CONST LOAD_FAST LOAD_FAST_CHECK STORE_FAST DELETE_FAST
    LOAD_GLOBAL LOAD_ATTR LOAD_METHOD LOAD_CLOSURE LOAD_DEREF STORE_DEREF MAKE_CELL
    COPY_FREE_VARS MAKE_FUNCTION RETURN_VALUE RETURN_CONST RETURN_GENERATOR YIELD_VALUE
    GET_ITER FOR_ITER END_FOR JUMP_FORWARD JUMP_BACKWARD JUMP_IF_TRUE_OR_POP
    JUMP_IF_FALSE_OR_POP POP_JUMP_IF_TRUE POP_JUMP_IF_FALSE POP_JUMP_IF_NONE
    POP_JUMP_IF_NOT_NONE POP_JUMP_FORWARD_IF_TRUE POP_JUMP_FORWARD_IF_FALSE
    POP_JUMP_FORWARD_IF_NONE POP_JUMP_FORWARD_IF_NOT_NONE POP_JUMP_BACKWARD_IF_TRUE
    POP_JUMP_BACKWARD_IF_FALSE POP_JUMP_BACKWARD_IF_NONE POP_JUMP_BACKWARD_IF_NOT_NONE
    BINARY_OP BINARY_SUBSCR BINARY_SLICE UNARY_NEGATIVE UNARY_NOT UNARY_INVERT UNARY_POSITIVE
    COMPARE_OP IS_OP BUILD_TUPLE BUILD_LIST BUILD_SLICE BUILD_STRING BUILD_MAP
    BUILD_CONST_KEY_MAP FORMAT_VALUE LIST_APPEND LIST_EXTEND LIST_TO_TUPLE MAP_ADD
    UNPACK_SEQUENCE LOAD_ASSERTION_ERROR RAISE_VARARGS
    """.split()
)
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")
_LOOKUPS = ("LOAD_GLOBAL", "LOAD_DEREF", "STORE_DEREF", *_ATTRIBUTES)
# Where operators are found, and functions that are made of them.
_HOMES = ("", ".functional", ".nn.functional", ".linalg", ".fft", ".special")
# What says of a tensor how it looks, and nothing of where it lies or what was done to it.
LOOKS = frozenset(
    """
    device dim dtype is_complex is_contiguous is_floating_point itemsize layout ndim
    ndimension nelement numel requires_grad shape size stride
    """.split()
)
# Methods that all modules have and that only look.
_LISTS = ("parameters", "buffers", "children", "modules")
_LISTS += ("forward", *[f"named_{name}" for name in _LISTS])


@lru_cache(1024)
def looks_of(code):
    """Where code looks names and attributes up: why it is not plain, if so, and the looks.

    Args:
        code: what was compiled of a function.

    Returns:
        The reason or None; for each look the instruction's number and name, and the name.
    """
    looks, before = [], None
    if getattr(code, "co_exceptiontable", b""):
        return "a try or with", ()
    for at, one in enumerate(dis.get_instructions(code)):
        if one.opname not in _INSTRUCTIONS:
            return one.opname, ()
        if one.opname == "IS_OP" and (before is None or before.argval is not None):
            return "whether two values are one", ()
        before = one if one.opname == "LOAD_CONST" else None
        if one.opname in _LOOKUPS:
            looks.append((at, one.opname, one.argval))
    return None, looks


def is_of_operators(thing):
    """Whether an operator, or a function of ours, is one that asks for operators alone."""
    home = str(thing.__module__)
    root, dot, rest = home.partition(".")
    return naming.is_own(root) and dot + rest in _HOMES


def is_plain_attribute(name):
    """Whether reading an attribute tells nothing that is not compared, whoever has it."""
    if hasattr(Module, name) and not hasattr(Tensor, name):
        return name in _LISTS or not callable(getattr(Module, name))
    found = getattr(Tensor, name, None)
    if found is None:
        return name not in UNREAD and not name.startswith("__")
    if isinstance(found, Overridable) and name not in LOOKS:
        return is_of_operators(found)
    return isinstance(found, (MethodPacket, Attribute)) or name in LOOKS


class Plain:
    """A class whose objects have attributes and nothing else."""


def is_plain_class(kind):
    """Whether objects of a user's class have attributes alone, found as any other's are."""
    return (
        type(kind) is type
        # nothing of C's, no slots
        and kind.__basicsize__ == Plain.__basicsize__
        and kind.__dictoffset__ == Plain.__dictoffset__
        and not naming.is_own(kind.__module__)
        and not {"__slots__", "__getattribute__"} & vars(kind).keys()
    )


def is_record(item):
    """Whether an object is one of a class written in Python, and all it has are attributes."""
    kinds = [kind for kind in type(item).__mro__ if kind is not object]
    return bool(kinds) and all([is_plain_class(kind) for kind in kinds])


class PlainCode:
    """Takes in code of a user's, with the names that it finds things by.

    Attributes:
        codes: what was found to be plain.
        cells: variables of enclosing functions, with what they hold.
        attributes: names that it reads attributes by.

    Args:
        names: the `rushlight.graph.guards.Names` that is told of each name.
        is_constant: whether an object is always what it is now.
    """

    def __init__(self, names, is_constant):
        self.names, self.is_constant = names, is_constant
        self.codes: set = set()
        self.cells: list = []
        self.attributes: set = set()

    def function(self, function):
        """Takes in a function.

        Args:
            function: one that was written in Python.

        Raises:
            Unproven: it may do more than ask for operators, or hang on more than is compared.
        """
        self.names.function(function)
        if function.__code__ in self.codes:
            return
        defaults = (
            *(function.__defaults__ or ()),
            *(function.__kwdefaults__ or {}).values(),
        )
        if not all(map(self.is_constant, defaults)):
            raise Unproven("a default that may change")
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
        self.code(function.__code__, function.__globals__, cells)

    def code(self, code, home, cells):
        """Takes in code, and all that is written inside of it.

        Args:
            code: what runs.
            home: the globals of its module.
            cells: by name the variables of functions around it that are over.
        """
        if code in self.codes:
            return
        self.codes.add(code)
        refusal, looks = looks_of(code)
        if refusal:
            raise Unproven(refusal)
        rest = iter(looks)
        for at, kind, name in rest:
            if kind == "LOAD_GLOBAL":
                self.named(name, home, at, rest)
            elif kind == "LOAD_DEREF" and name in cells:
                self.enclosed(name, cells[name], at, rest)
            elif kind == "STORE_DEREF" and name in cells:
                raise Unproven("a variable of a function around it")
            elif kind in _ATTRIBUTES:
                self.attribute(name)
        for inner in code.co_consts:
            if isinstance(inner, CodeType):
                self.code(inner, home, cells)

    def attribute(self, name):
        """Takes in an attribute of a value that the frame has."""
        if not is_plain_attribute(name):
            raise Unproven(f"the attribute {name}")
        self.attributes.add(name)

    def named(self, name, home, at, rest):
        """Takes in a global name, and the attributes of modules that are read of it at once.

        Args:
            name: what is looked up.
            home: the globals, where it is looked for first.
            at: the number of the instruction.
            rest: the looks after it.
        """
        self.names.place(home, name)
        if name in home:
            self.value(home[name], at, rest)
            return
        builtins = home["__builtins__"]
        builtins = vars(builtins) if isinstance(builtins, ModuleType) else builtins
        self.names.place(builtins, name)
        if name not in BUILTINS:
            raise Unproven(f"the name {name}")

    def enclosed(self, name, cell, at, rest):
        """Takes in a variable of a function around it."""
        value = cell.cell_contents
        self.cells.append((cell, value))
        if name != "__class__":  # what super() looks at
            self.value(value, at, rest)

    def value(self, value, at, rest):
        """Takes in what a name has, or the attribute of a module that is read of it."""
        while isinstance(value, ModuleType):
            after, kind, attribute = next(rest, (0, "", ""))
            inside = vars(value)
            known = naming.is_own(value.__name__) or value.__name__ == "math"
            if not known or kind not in _ATTRIBUTES or after != at + 1:
                raise Unproven("a module")
            self.names.place(inside, attribute)
            if attribute not in inside:
                raise Unproven(f"the name {attribute}")
            value, at = inside[attribute], after
        if isinstance(value, (OperatorPacket, Overridable)):
            known = is_of_operators(value)
        elif isinstance(value, FunctionType) and not naming.is_own(value.__module__):
            self.function(value)
            known = True
        elif isinstance(value, BuiltinFunctionType):
            known = is_plain_call(value)
        else:
            known = value is Tensor or value is Parameter or self.is_constant(value)
        if not known:
            raise Unproven(f"a value of {type(value)}")

    def methods(self, kinds, running):
        """Takes in the methods of modules' classes that ran.

        Args:
            kinds: the classes.
            running: the code of users' that ran.

        Raises:
            Unproven: some of it is none of theirs, or classes have what may change.
        """
        others = [
            base
            for base in dict.fromkeys(base for kind in kinds for base in kind.__mro__)
            if not naming.is_own(base.__module__) and base is not object
        ]
        for base in others:
            for item in vars(base).values():
                if isinstance(item, FunctionType) and item.__code__ in running:
                    self.function(item)
        if not self.codes.issuperset(running):
            raise Unproven("code that is no method's")
        for base in others:
            if type(base) is not type or "__getattribute__" in vars(base):
                raise Unproven("a class that finds attributes its own way")
            for name in self.attributes & vars(base).keys():
                item = vars(base)[name]
                if not isinstance(item, FunctionType) and not self.is_constant(item):
                    raise Unproven("an attribute of a class")
