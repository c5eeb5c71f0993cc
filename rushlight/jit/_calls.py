"""Calls: of operators, functions, methods, classes, and the language's own forms."""

import ast
import inspect

import rushlight as torch
from rushlight.dispatch import python_key
from rushlight.jit import _annotated, _overloads, _types
from rushlight.jit._builtin_names import operator_of
from rushlight.jit._emitter import BOOL, INT, NONE, STR, TENSOR
from rushlight.jit._language_forms import Forms
from rushlight.jit._sources import NotSupportedError, error
from rushlight.jit._sugar import (
    Builtin,
    ClassValue,
    Creator,
    Fixed,
    FunctionValue,
    Held,
    Ignored,
    Method,
    PythonValue,
    Special,
    TypeName,
)
from rushlight.jit._types import OptionalType, TupleType
from rushlight.jit.ir import Value

_CASTS = {int: "Int", float: "Float", bool: "Bool", complex: "Complex", str: "str"}


class Calls(Forms):
    """Translates calls."""

    def _call(self, tree):
        callee = self.sugar(tree.func)
        if isinstance(callee, Special):
            return getattr(self, "form_" + callee.name)(tree)
        if isinstance(callee, PythonValue):
            form = self.python_form(callee.python)
            if form is not None:
                return form(tree)
        operands, named = self.operands(tree)
        return self.apply(callee, operands, named, tree)

    def operands(self, tree):
        """What a call is given: in order, and by name."""
        operands = []
        for argument in tree.args:
            if isinstance(argument, ast.Starred):
                operands += self.spread(self.sugar(argument.value), argument)
            else:
                operands.append(self.sugar(argument))
        if any(keyword.arg is None for keyword in tree.keywords):
            raise error(
                "keyword-arg expansion is not supported",
                self.place(tree),
                NotSupportedError,
            )
        named = {keyword.arg: self.sugar(keyword.value) for keyword in tree.keywords}
        return operands, named

    def spread(self, sugar, tree):
        """The parts of ``*something``."""
        if isinstance(sugar, Fixed):
            return sugar.items
        value = self.value(sugar, tree)
        if isinstance(value.type, TupleType):
            return self.unpack(value, tree)
        if value.node is not None and value.node.kind_ == "prim::ListConstruct":
            return list(value.node.inputs_)
        raise self.refuse(
            "cannot statically infer the expected size of a list in this context", tree
        )

    def values(self, operands, named, tree):
        """Operands as values."""
        done = [self.value(item, tree) for item in operands]
        return done, {name: self.value(item, tree) for name, item in named.items()}

    def apply(self, callee, operands, named, tree):
        """The result of calling something."""
        if isinstance(callee, PythonValue):
            return self.call_python(callee.python, operands, named, tree)
        if isinstance(callee, Creator):
            return self.one("prim::CreateObject", [], tree, callee.type)
        if isinstance(callee, ClassValue):
            return self.construct(callee.type, operands, named, tree)
        values, named = self.values(operands, named, tree)
        if isinstance(callee, Builtin):
            own = [] if callee.self_value is None else [callee.self_value]
            return self.call_builtin(callee.name, own + values, named, tree)
        if isinstance(callee, FunctionValue):
            return self.call_function(callee.function, values, named, tree)
        if isinstance(callee, Method):
            return self.call_method(callee.self_value, callee.name, values, named, tree)
        if isinstance(callee, TypeName):
            return self.cast(callee.type, values, tree)
        if isinstance(callee, Held):
            return self.held(callee, tree)
        if isinstance(callee, Ignored):
            return self.call_ignored_method(callee, values, named, tree)
        if isinstance(callee, Value) and isinstance(callee.type, _types.ClassType):
            if callee.type.has_hooks:
                return self.call_with_hooks(callee, values, named, tree)
            name = "forward" if callee.type.is_module else "__call__"
            return self.call_method(callee, name, values, named, tree)
        if isinstance(callee, Value) and isinstance(callee.type, _types.InterfaceType):
            return self.call_method(callee, "forward", values, named, tree)
        if isinstance(callee, Value):
            raise self.refuse(f"cannot call a value of type '{callee.type}'", tree)
        raise self.refuse(f"cannot call a {callee.kind}", tree)

    def call_builtin(self, name, operands, named, tree):
        """An operator of the language or the registry; some have a form of their own."""
        own = getattr(self, "builtin_" + name.replace("::", "_"), None)
        if own is not None:
            return own(operands, named, tree)
        bare = name.removeprefix("aten::")
        if bare in ("eq", "ne") and isinstance(operands[0].type, _types.EnumType):
            return self.one(name, operands, tree, BOOL)
        if operands and operands[0].type == TENSOR:
            name, operands, named = self.tensor_method(
                bare, name, operands, named, tree
            )
        return self.call(name, operands, tree, **named)

    def tensor_method(self, bare, name, operands, named, tree):
        """Methods of tensors that are other operators, or take sizes one by one."""
        casts = {
            "float": "float32",
            "double": "float64",
            "half": "float16",
            "bfloat16": "bfloat16",
            "int": "int32",
            "long": "int64",
            "short": "int16",
            "char": "int8",
            "byte": "uint8",
            "bool": "bool",
        }
        if bare in casts and len(operands) == 1:
            operands = [operands[0], self.constant(getattr(torch, casts[bare]), tree)]
            return "aten::to", operands, {}
        listed = "view reshape expand repeat permute tile flip new_zeros new_ones new_empty view_as"
        if (
            bare in listed.split()
            and len(operands) > 1
            and all(o.type == INT for o in operands[1:])
        ):
            operands = [operands[0], self.list_of(operands[1:], tree)]
        return name, operands, named

    def builtin_prim_RaiseException(self, operands, named, tree):
        """``ops.prim.RaiseException`` of archives."""
        self.add("prim::RaiseException", operands, tree)
        self.ends = True
        return self.none(tree)

    def builtin_aten_format(self, operands, named, tree):
        """``text.format(…)``."""
        return self.one("aten::format", operands, tree, STR)

    def builtin_aten_percentFormat(self, operands, named, tree):
        """``text % …`` of archives."""
        return self.one("aten::percentFormat", operands, tree, STR)

    def builtin_aten___is__(self, operands, named, tree):
        """``is`` of archives."""
        return self.one("aten::__is__", operands, tree, BOOL)

    def builtin_aten___isnot__(self, operands, named, tree):
        """``is not`` of archives."""
        return self.one("aten::__isnot__", operands, tree, BOOL)

    def builtin_aten_tolist(self, operands, named, tree):
        """``tensor.tolist()``, whose type the annotation of its target says."""
        kind = self.expected
        if kind is None:
            raise self.refuse("Expected type hint for result of tolist()", tree)
        return self.one("prim::tolist", operands, tree, kind)

    def builtin_prim_unchecked_unwrap_optional(self, operands, named, tree):
        """An optional value that is there."""
        kind = operands[0].type
        inner = kind.getElementType() if isinstance(kind, OptionalType) else kind
        return self.one("prim::unchecked_cast", operands, tree, inner)

    def builtin_aten_item(self, operands, named, tree):
        """``tensor.item()``: a number."""
        return self.call("aten::item", operands, tree)

    def builtin_prim_EnumName(self, operands, named, tree):
        return self.one("prim::EnumName", operands, tree, STR)

    def builtin_prim_EnumValue(self, operands, named, tree):
        return self.one("prim::EnumValue", operands, tree, operands[0].type.value)

    def function_value(self, function):
        """What a translated function stands for."""
        return FunctionValue(function)

    def result_of(self, function, tree):
        """The type that a function gives; its graph tells, where nothing else does."""
        if function.infer:
            graph = function.graph
            function.schema.returns = [v.type for v in graph.returns.inputs_]
            function.infer = False
        return function.schema.returns[0]

    def call_function(self, function, values, named, tree):
        """The result of a translated function."""
        given = self.fit_function(function.schema, values, named, tree)
        kind = self.result_of(function, tree)
        return self.one("prim::CallFunction", given, tree, kind, function=function)

    def call_method(self, owner, name, values, named, tree):
        """The result of a method of an object."""
        kind = owner.type
        if isinstance(kind, _types.InterfaceType):
            schema = kind.methods.get(name)
            if schema is None:
                raise self.refuse(
                    f"Tried to access nonexistent attribute or method '{name}'", tree
                )
            given = self.fit_function(schema, [owner, *values], named, tree)
            return self.one(
                "prim::CallMethod", given, tree, schema.returns[0], name=name
            )
        if name.startswith("super."):
            return self.none(tree)  # a base class of modules has nothing to do here
        if kind.is_module:
            name = self.overload(owner, name, values, named)
        method = kind.methods.get(name)
        if method is None and kind.is_module:
            method = self.unit.method(kind, name)
        if method is None:
            raise self.refuse(
                f"Tried to access nonexistent attribute or method '{name}' of type "
                f"'{kind.name}'",
                tree,
            )
        given = self.fit_function(method.schema, [owner, *values], named, tree)
        result = self.result_of(method, tree)
        return self.one("prim::CallMethod", given, tree, result, name=name)

    def overload(self, owner, name, values, named):
        """The name of the method that takes the operands: the first of those declared."""
        names = self.unit.overloads(owner.type, name)
        for each in names:
            schema = self.unit.method(owner.type, each).schema
            if self.accepts(schema, [owner, *values], named):
                return each
        return names[-1] if names else name

    def call_with_hooks(self, owner, values, named, tree):
        """The result of calling a module: what its hooks make of its operands and result."""
        if named:
            raise self.refuse("modules with hooks take operands in order only", tree)
        kind = owner.type
        given = self.tuple_of(values, tree)
        for name in kind.pre_hooks:
            found = self.call_function(kind.methods[name], [owner, given], {}, tree)
            if isinstance(found.type, TupleType):
                given = found
            elif found.type != NONE:
                given = self.tuple_of([found], tree)
        parts = self.unpack(given, tree)
        result = self.call_method(owner, "forward", parts, {}, tree)
        for name in kind.hooks:
            operands = [owner, given, result]
            found = self.call_function(kind.methods[name], operands, {}, tree)
            if found.type != NONE:
                result = found
        return result

    def construct(self, kind, operands, named, tree):
        """A new object of a class, or a named tuple."""
        values, named = self.values(operands, named, tree)
        if isinstance(kind, TupleType):
            from rushlight.jit._schemas import Argument, Schema

            rows = zip(
                kind.fields, kind.elements(), kind.defaults or [...] * len(kind.fields)
            )
            schema = Schema(kind.name, "", [Argument(*row) for row in rows], [kind])
            given = self.fit_function(schema, values, named, tree)
            return self.tuple_of(given, tree, kind)
        made = self.one("prim::CreateObject", [], tree, kind)
        if "__init__" in kind.methods:
            method = kind.methods["__init__"]
            given = self.fit_function(method.schema, [made, *values], named, tree)
            self.one("prim::CallMethod", given, tree, NONE, name="__init__")
        return made

    def member(self, owner, name, found, tree):
        """What Python knows of a module under a name: a method, or a constant."""
        kind = owner.type
        if name in ("items", "keys", "values") and self.unit.items(kind) is not None:
            return Held(owner, name)
        if hasattr(found, "names") and type(found).__name__ == "Weights":
            rows = [self.attribute(owner, label, tree) for label in found.names]
            return self.list_of(rows, tree)
        if isinstance(found, staticmethod):
            return PythonValue(found.__func__, name)
        if name in getattr(kind, "others", {}):
            return PythonValue(found, name)
        if inspect.ismethod(found):
            return Method(owner, name)
        if inspect.isfunction(found):
            modifier = getattr(found, "_torchscript_modifier", "")
            if modifier.startswith(("ignore", "unused")):
                return Ignored(owner, found)
            return Method(owner, name)
        return PythonValue(found, name)

    def held(self, callee, tree):
        """``items()``, ``keys()`` and ``values()`` of a module that holds others."""
        owner = callee.self_value
        names = self.unit.items(owner.type)
        keys = [self.constant(name, tree) for name in names]
        values = [self.attribute(owner, name, tree) for name in names]
        if callee.name == "keys":
            return Fixed(keys)
        if callee.name == "values":
            return Fixed(values)
        return Fixed([Fixed(pair) for pair in zip(keys, values)])

    def call_ignored_method(self, callee, values, named, tree):
        """A method that stays Python."""
        if callee.python._torchscript_modifier.startswith("unused"):
            return self.call_unused(callee.python, tree)
        return self.call_ignored(
            callee.python, [callee.self_value, *values], named, tree
        )

    def python_form(self, python):
        """A form of the language that a Python function is called by, or None."""
        forms = {
            torch.jit.annotate: self.form_annotate,
            torch.jit.isinstance: self.form_isinstance,
            torch.jit.fork: self.form_fork,
            torch.jit.is_scripting: self.form_is_scripting,
            torch.jit.is_tracing: self.form_false,
            python_key.recording: self.form_false,
            torch.overrides.has_torch_function: self.form_false,
            torch.overrides.has_torch_function_unary: self.form_false,
            torch.overrides.has_torch_function_variadic: self.form_false,
        }
        try:
            return forms.get(python)
        except TypeError:
            return None

    def call_python(self, python, operands, named, tree):
        """The result of calling what Python knows."""
        if isinstance(python, type) and python in _CASTS:
            values, _ = self.values(operands, named, tree)
            return self.cast(_annotated.of_python(python, self.unit), values, tree)
        operator = operator_of(python)
        if operator is not None:
            values, named = self.values(operands, named, tree)
            return self.call_builtin(operator, values, named, tree)
        values, named = self.values(operands, named, tree)
        python = self.switched(python, values, named)
        form = self.unit.form_of(python)
        if form is not None:
            return self.call_function(form, values, named, tree)
        if isinstance(python, torch.jit.ScriptFunction):
            return self.call_function(python.function, values, named, tree)
        if inspect.isclass(python):
            return self.call_class(python, values, named, tree)
        modifier = getattr(python, "_torchscript_modifier", "")
        if modifier.startswith("ignore"):
            return self.call_ignored(python, values, named, tree)
        if modifier.startswith("unused"):
            return self.call_unused(python, tree)
        if callable(python) and not inspect.isbuiltin(python):
            function = self.overloaded(python, values, named)
            return self.call_function(function, values, named, tree)
        name = getattr(python, "__name__", str(python))
        raise self.refuse(
            f"Python builtin {python} is currently not supported in Torchscript"
            if inspect.isbuiltin(python)
            else f"python value of type '{type(python).__name__}' ({name}) cannot be called",
            tree,
        )

    def switched(self, python, values, named):
        """The function that one is where an argument is true, which says what it gives."""
        name = getattr(python, "__name__", None)
        switch = torch.nn.functional._SWITCHES.get(name)
        if switch is None or getattr(torch.nn.functional, name) is not python:
            return python
        argument, other = switch
        at = list(inspect.signature(python).parameters).index(argument)
        given = values[at] if at < len(values) else named.get(argument)
        on = given is not None and self.known(given)
        return getattr(torch.nn.functional, other) if on and on[0] else python

    def overloaded(self, python, values, named):
        """A function's translation, by the first declared signature that takes operands."""
        python = getattr(python, "__original_fn", python)
        function = None
        for at, declaration in enumerate(_overloads.signatures_of(python)):
            function = self.unit.script_overload(python, at, declaration)
            if self.accepts(function.schema, values, named):
                return function
        return self.unit.script_function(python) if function is None else function

    def call_class(self, python, values, named, tree):
        if issubclass(python, BaseException):
            raise self.refuse(f"exceptions are only raised: {python.__name__}", tree)
        if issubclass(python, torch.nn.Module):
            name = python.__name__
            raise self.refuse(
                f"Cannot instantiate class '{name}' in a script function", tree
            )
        kind = _annotated.of_python(python, self.unit, self.place(tree))
        if isinstance(kind, _types.EnumType):
            raise self.refuse("members of enumerations are named, not made", tree)
        if not isinstance(kind, (_types.ClassType, TupleType)):
            raise self.refuse(f"class '{python.__name__}' cannot be called", tree)
        return self.construct(kind, values, named, tree)

    def call_ignored(self, python, values, named, tree):
        """A call that stays Python."""
        hints = getattr(python, "__annotations__", {})
        result = hints.get("return", torch.Tensor)
        kind = _annotated.of_python(result, self.unit, self.place(tree))
        names = list(inspect.signature(python).parameters)
        for name in names[len(values) :]:
            if name in named:
                values = [*values, named[name]]
        return self.one("prim::PythonOp", values, tree, kind, python=python)

    def call_unused(self, python, tree):
        """A call that must not be run."""
        self.add(
            "prim::RaiseException",
            [
                self.constant(
                    "This Python function is annotated to be ignored and cannot be run",
                    tree,
                ),
                self.none(tree),
            ],
            tree,
        )
        result = getattr(python, "__annotations__", {}).get("return", torch.Tensor)
        kind = _annotated.of_python(result, self.unit, self.place(tree))
        return self.one("prim::Uninitialized", [], tree, kind)

    def cast(self, kind, values, tree):
        """``int(x)`` and the like."""
        name = {
            "int": "Int",
            "float": "Float",
            "bool": "Bool",
            "complex": "Complex",
            "str": "str",
        }
        (value,) = values if len(values) == 1 else (None,)
        if value is not None and value.type == kind and kind != STR:
            return value
        word = name.get(kind.annotation_str)
        if word is None:
            raise self.refuse(f"'{kind}' cannot be called", tree)
        self.graph.count_one()
        return self.call(f"aten::{word}", values, tree)
