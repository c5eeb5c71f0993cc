"""Tables that stand for those to come: what is done to one is done to each.

A captured value notes what is asked of it. What it notes is a program of assignments to
variables, the first of which is the table, and ``apply_ops`` runs it on a real one.
"""

import operator
from typing import Any

from rushlight.utils.data.datapipes._decorator import functional_datapipe
from rushlight.utils.data.datapipes.dataframe.structures import DataChunkDF
from rushlight.utils.data.datapipes.datapipe import DFIterDataPipe, IterDataPipe

__all__ = [
    "Capture",
    "CaptureA",
    "CaptureAdd",
    "CaptureCall",
    "CaptureControl",
    "CaptureDataFrame",
    "CaptureDataFrameWithDataPipeOps",
    "CaptureF",
    "CaptureGetAttr",
    "CaptureGetItem",
    "CaptureInitial",
    "CaptureLikeMock",
    "CaptureMul",
    "CaptureSetItem",
    "CaptureSub",
    "CaptureVariable",
    "CaptureVariableAssign",
    "DataFrameTracedOps",
    "DataFrameTracer",
    "disable_capture",
    "get_val",
]


def disable_capture() -> None:
    """Refuses new variables from now on."""
    CaptureControl.disabled = True


class CaptureControl:
    """Whether new variables are refused."""

    disabled = False


class DataFrameTracedOps(DFIterDataPipe):
    """What a program makes of each table.

    Args:
        source_datapipe: the tables.
        output_var: the variable that is wanted.
    """

    def __init__(self, source_datapipe, output_var) -> None:
        super().__init__()
        self.source_datapipe = source_datapipe
        self.output_var = output_var

    def __iter__(self):
        for item in self.source_datapipe:
            yield self.output_var.apply_ops(item)


# Methods of pipes, which a table's attributes do not hide.
DATAPIPES_OPS = [
    "_dataframes_as_tuples",
    "groupby",
    "_dataframes_filter",
    "map",
    "to_datapipe",
    "shuffle",
    "concat",
    "batch",
    "_dataframes_per_row",
    "_dataframes_concat",
    "_dataframes_shuffle",
]

UNIMPLEMENTED_ATTR = ["__deepcopy__", "__setstate__", "is_shardable", "apply_sharding"]


class Capture:
    """A value that is not there yet, and notes what is asked of it.

    Args:
        schema_df: a table to try the program on, where its columns are asked for.
    """

    ctx: dict[str, Any]

    def __init__(self, schema_df=None) -> None:
        self.ctx = {"operations": [], "variables": [], "schema_df": schema_df}

    def __str__(self) -> str:
        return self._ops_str()

    def _ops_str(self):
        return "\n".join(str(each) for each in self.ctx["operations"])

    def __getstate__(self):
        self.ctx["schema_df"] = None
        for variable in self.ctx["variables"]:
            variable.calculated_value = None
        return dict(self.__dict__)

    def __setstate__(self, state):
        self.__dict__.update(state)

    def __getattr__(self, name):
        if name in ("kwarg", "kwargs"):
            raise RuntimeError("no kwargs!")
        if name == "ctx" or (name.startswith("__") and name.endswith("__")):
            raise AttributeError(name)
        return CaptureGetAttr(self, name, ctx=self.ctx)

    def __getitem__(self, key):
        return CaptureGetItem(self, key, ctx=self.ctx)

    def __setitem__(self, key, value) -> None:
        self.ctx["operations"].append(CaptureSetItem(self, key, value, ctx=self.ctx))

    def _noted(self, value):
        """A new variable that a value is assigned to."""
        variable = CaptureVariable(value, ctx=self.ctx)
        assigned = CaptureVariableAssign(variable=variable, value=value, ctx=self.ctx)
        self.ctx["operations"].append(assigned)
        return variable

    def __add__(self, other):
        return self._noted(CaptureAdd(self, other, ctx=self.ctx))

    def __sub__(self, other):
        return self._noted(CaptureSub(self, other, ctx=self.ctx))

    def __mul__(self, other):
        return self._noted(CaptureMul(self, other, ctx=self.ctx))

    def _is_context_empty(self):
        return not self.ctx["operations"] and not self.ctx["variables"]

    def apply_ops_2(self, dataframe) -> None:
        """Runs the program on a table."""
        self.ctx["variables"][0].calculated_value = dataframe
        for each in self.ctx["operations"]:
            each.execute()

    @property
    def columns(self):
        """The columns that the value has of the table to try."""
        self.apply_ops_2(self.ctx["schema_df"])
        return self.execute().columns

    def execute(self) -> Any:
        """The value."""
        raise NotImplementedError(f"{type(self).__name__} has no value")

    def __call__(self, *args, **kwargs):
        if self._is_context_empty():
            # A function that was captured by itself joins the program of an argument.
            for each in [*args, *kwargs.values()]:
                if isinstance(each, Capture) and not each._is_context_empty():
                    self.ctx = each.ctx
                    break
        return self._noted(CaptureCall(self, ctx=self.ctx, args=args, kwargs=kwargs))


class CaptureF(Capture):
    """A part of a program with named parts of its own."""

    def __init__(self, ctx=None, **kwargs) -> None:
        super().__init__()
        self.ctx = {"operations": [], "variables": []} if ctx is None else ctx
        self.kwargs = kwargs


class CaptureA(CaptureF):
    """A function of a module, called by a program."""

    def __str__(self) -> str:
        return f"{self.kwargs['name']}"

    def execute(self):
        return self.kwargs["real_attribute"]


class CaptureLikeMock:
    """Captures the calls of a function of a module, inside of it.

    Args:
        name: of the function, with its module's.
    """

    def __init__(self, name) -> None:
        import importlib

        module, self.attribute = name.rsplit(".", 1)
        self.get_target = lambda: importlib.import_module(module)
        self.name = name

    def __enter__(self):
        self.save = getattr(self.get_target(), self.attribute)
        captured = CaptureA(name=self.name, real_attribute=self.save)
        setattr(self.get_target(), self.attribute, captured)

    def __exit__(self, *exc_info):
        setattr(self.get_target(), self.attribute, self.save)


class CaptureCall(CaptureF):
    """A call."""

    def __init__(self, callable, ctx=None, **kwargs) -> None:
        super().__init__(ctx, **kwargs)
        self.callable = callable

    def __str__(self) -> str:
        return f"{self.callable}({self.kwargs['args']},{self.kwargs['kwargs']})"

    def execute(self):
        args = [get_real(each) for each in self.kwargs["args"]]
        named = {name: get_real(each) for name, each in self.kwargs["kwargs"].items()}
        return get_val(self.callable)(*args, **named)


class CaptureVariableAssign(CaptureF):
    """An assignment."""

    def __str__(self) -> str:
        return f"{self.kwargs['variable']} = {self.kwargs['value']}"

    def execute(self) -> None:
        self.kwargs["variable"].calculated_value = self.kwargs["value"].execute()


class CaptureVariable(Capture):
    """A variable.

    Raises:
        RuntimeError: new ones are refused.
    """

    names_idx = 0

    def __init__(self, value, ctx) -> None:
        super().__init__()
        if CaptureControl.disabled:
            raise RuntimeError("Attempting to create capture variable with capture off")
        self.ctx = ctx
        self.value = value
        self.calculated_value: Any = None
        self.name = f"var_{CaptureVariable.names_idx}"
        CaptureVariable.names_idx += 1
        self.ctx["variables"].append(self)

    def __str__(self) -> str:
        return self.name

    def execute(self):
        return self.calculated_value

    def apply_ops(self, dataframe):
        """What the program makes of a table."""
        self.apply_ops_2(dataframe)
        return self.calculated_value


class CaptureGetItem(Capture):
    """A column, or what else is in brackets."""

    def __init__(self, left, key, ctx) -> None:
        super().__init__()
        self.ctx, self.left, self.key = ctx, left, key

    def __str__(self) -> str:
        return f"{self.left}[{get_val(self.key)}]"

    def execute(self):
        return self.left.execute()[self.key]


class CaptureSetItem(Capture):
    """An assignment to a column."""

    def __init__(self, left, key, value, ctx) -> None:
        super().__init__()
        self.ctx, self.left, self.key, self.value = ctx, left, key, value

    def __str__(self) -> str:
        return f"{self.left}[{get_val(self.key)}] = {self.value}"

    def execute(self) -> None:
        self.left.execute()[self.key] = get_real(self.value)


class _CaptureBinary(Capture):
    """An operator between two values."""

    sign: str
    function: Any

    def __init__(self, left, right, ctx) -> None:
        super().__init__()
        self.ctx, self.left, self.right = ctx, left, right

    def __str__(self) -> str:
        return f"{self.left} {self.sign} {self.right}"

    def execute(self):
        return type(self).function(get_real(self.left), get_real(self.right))


class CaptureAdd(_CaptureBinary):
    """A sum."""

    sign, function = "+", operator.add


class CaptureMul(_CaptureBinary):
    """A product."""

    sign, function = "*", operator.mul


class CaptureSub(_CaptureBinary):
    """A difference."""

    sign, function = "-", operator.sub


class CaptureGetAttr(Capture):
    """An attribute."""

    def __init__(self, src, name, ctx) -> None:
        super().__init__()
        self.ctx, self.src, self.name = ctx, src, name

    def __str__(self) -> str:
        return f"{self.src}.{self.name}"

    def execute(self):
        return getattr(get_val(self.src), self.name)


def get_real(capture):
    """The value of what is captured; anything else as it is."""
    return capture.execute() if isinstance(capture, Capture) else capture


def get_val(capture):
    """The value of what is captured; text in quotation marks, anything else as it is."""
    return f'"{capture}"' if isinstance(capture, str) else get_real(capture)


class CaptureInitial(CaptureVariable):
    """The first variable: the table."""

    def __init__(self, schema_df=None) -> None:
        program: dict[str, Any] = {"operations": [], "variables": []}
        super().__init__(None, program | {"schema_df": schema_df})
        self.name = f"input_{self.name}"


class CaptureDataFrame(CaptureInitial):
    """A table that stands for those to come.

    >>> from rushlight.utils.data.datapipes.dataframe import CaptureDataFrame
    >>> table = CaptureDataFrame()
    >>> doubled = table["a"] + table["a"]
    >>> doubled.apply_ops({"a": 3})
    6
    """


class CaptureDataFrameWithDataPipeOps(CaptureDataFrame):
    """A table that stands for those to come, with the methods of pipes."""

    def as_datapipe(self):
        """The tables that the program makes."""
        return DataFrameTracedOps(self.ctx["variables"][0].source_datapipe, self)

    def raw_iterator(self):
        """Those tables, one after another."""
        return iter(self.as_datapipe())

    def __iter__(self):
        return iter(self._dataframes_as_tuples())

    def batch(self, batch_size=10, drop_last: bool = False, wrapper_class=DataChunkDF):
        """Batches of so many rows."""
        pipe = self._dataframes_per_row()._dataframes_concat(batch_size).as_datapipe()
        pipe = pipe.batch(1, drop_last=drop_last, wrapper_class=wrapper_class)
        pipe._dp_contains_dataframe = True
        return pipe

    def groupby(self, group_key_fn, **options):
        """Groups of rows with the same key."""
        rows = self._dataframes_per_row().as_datapipe()
        return rows.groupby(group_key_fn, **options)

    def shuffle(self, *args, **kwargs):
        """All rows in a random order."""
        return self._dataframes_shuffle(*args, **kwargs)

    def filter(self, *args, **kwargs):
        """The rows that a function wants."""
        return self._dataframes_filter(*args, **kwargs)

    def collate(self, *args, **kwargs):
        """Is refused: rows are put into batches first."""
        raise RuntimeError("Can't collate unbatched DataFrames stream")

    def __getattr__(self, name):
        if name in UNIMPLEMENTED_ATTR:
            raise AttributeError("Attempting to get ", name)
        if name in DATAPIPES_OPS:
            return getattr(self.as_datapipe(), name)
        return super().__getattr__(name)


@functional_datapipe("trace_as_dataframe")
class DataFrameTracer(CaptureDataFrameWithDataPipeOps, IterDataPipe):
    """A pipe of tables as one that stands for them.

    Args:
        source_datapipe: the tables.
        schema_df: one to try programs on; the first where left out.
    """

    source_datapipe: Any = None

    def set_shuffle_settings(self, *args, **kwargs) -> None:
        """Does nothing: rows are shuffled whole."""

    def is_shardable(self) -> bool:
        """No: there are no shares of tables."""
        return False

    def __init__(self, source_datapipe, schema_df=None) -> None:
        self.source_datapipe = source_datapipe
        if schema_df is None:
            schema_df = next(iter(self.source_datapipe))
        super().__init__(schema_df=schema_df)
