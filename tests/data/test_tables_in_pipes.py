"""Pipes of tables give what PyTorch's give."""

import pickle

import pytest

import rushlight as rl
from rushlight.utils.data.datapipes import dataframe
from rushlight.utils.data.datapipes.dataframe import dataframe_wrapper as wrapper
from rushlight.utils.data.datapipes.dataframe import dataframes
from rushlight.utils.data.datapipes.iter import IterableWrapper


class Table:
    """As little of a table as the pipes ask for: rows with named columns."""

    def __init__(self, rows, columns):
        self.rows, self.columns = [tuple(row) for row in rows], columns

    def __getitem__(self, name):
        place = self.columns.index(name)
        return Column([row[place] for row in self.rows])

    def __setitem__(self, name, column):
        self.columns = [*self.columns, name]
        self.rows = [(*row, each) for row, each in zip(self.rows, column)]

    @property
    def iloc(self):
        return [dict(zip(self.columns, row)) for row in self.rows]


class Column(list):
    def __add__(self, other):
        return Column(a + b for a, b in zip(self, other))

    def __mul__(self, factor):
        return Column(each * factor for each in self)


class Wrapper:
    create_dataframe = staticmethod(Table)
    is_dataframe = staticmethod(lambda data: isinstance(data, Table))
    is_column = staticmethod(lambda data: isinstance(data, Column))
    iterate = staticmethod(lambda data: iter(getattr(data, "rows", data)))
    get_len = staticmethod(lambda data: len(data.rows))
    get_columns = staticmethod(lambda data: data.columns)

    @staticmethod
    def concat(tables):
        return Table([row for each in tables for row in each.rows], tables[0].columns)

    @staticmethod
    def get_item(data, row):
        return Table(data.rows[row : row + 1], data.columns)


@pytest.fixture
def tables():
    """A pipe of tables with three rows each, and a last one with one."""
    before = wrapper.get_df_wrapper()
    wrapper.set_df_wrapper(Wrapper)
    pairs = IterableWrapper([(i, 10 * i) for i in range(7)])
    yield pairs._to_dataframes_pipe(dataframe_size=3, columns=["a", "b"])
    wrapper.set_df_wrapper(before)


def test_samples_that_are_no_rows_are_rows_of_one(tables):
    made = IterableWrapper([1, 2, 3])._to_dataframes_pipe(dataframe_size=2)
    assert [list(map(list, each.rows)) for each in made.as_datapipe()] == [
        [[1], [2]],
        [[3]],
    ]


def test_what_is_done_to_one_table_is_done_to_each(tables):
    tables["c"] = (tables["a"] + tables["b"]) * 2
    assert [row[2] for row in tables] == [22 * i for i in range(7)]
    assert "= var_" in tables._ops_str() and "* 2" in tables._ops_str()


def test_rows_are_batched_filtered_shuffled_and_grouped(tables):
    sizes = [len(batch) for batch in tables.batch(2)]
    assert sizes == [2, 2, 2, 1]
    wanted = tables.filter(odd)
    assert [row[0] for row in wanted] == [1, 3, 5]
    assert sorted(row[0] for row in tables.shuffle()) == list(range(7))
    groups = [[each.rows[0][0] for each in group] for group in tables.groupby(parity)]
    assert groups == [[0, 2, 4, 6], [1, 3, 5]]
    with pytest.raises(RuntimeError, match="Can't collate unbatched"):
        tables.collate()


def odd(row):
    return row["a"] % 2 == 1


def parity(table):
    return table.rows[0][0] % 2


def test_columns_are_collated_each_by_its_function(tables):
    batches = tables.batch(4).collate({"a": rl.tensor, "b": sum})
    first, second = batches
    assert first.a.tolist() == [0, 1, 2, 3] and first.b == 60
    assert second._fields == ("a", "b")
    with pytest.raises(RuntimeError, match="Conversion keys mismatch"):
        list(tables.batch(4).collate({"z": sum}))
    with pytest.raises(RuntimeError, match="no function for the column"):
        list(tables.batch(4).collate({"a": sum}))


def test_rows_are_kept_by_a_column_of_answers(tables):
    pipe = tables.as_datapipe()
    kept = rl.utils.data.datapipes.iter.Filter(pipe, even_rows)
    assert [row[0] for table in kept for row in table.rows] == [0, 2, 4, 6]


def even_rows(table):
    return Column(each % 2 == 0 for each in table["a"])


def test_functions_of_modules_are_captured():
    table = dataframe.CaptureDataFrame()
    with dataframes.CaptureLikeMock("math.floor"):
        import math

        down = math.floor(table["a"])
    assert down.apply_ops({"a": 2.5}) == 2
    assert pickle.loads(pickle.dumps(down)).apply_ops({"a": 3.5}) == 3
    difference = table["a"] - 1
    assert difference.apply_ops({"a": 3}) == 2


def test_pandas_tables_are_tables():
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pandas.DataFrame({"a": [1, 2, 3]})
    tables = IterableWrapper([frame]).trace_as_dataframe()
    tables["b"] = tables["a"] * 2
    assert [tuple(row) for row in tables] == [(1, 2), (2, 4), (3, 6)]
    assert wrapper.is_dataframe(frame) and wrapper.is_column(frame["a"])


def test_without_tables_nothing_is_one():
    assert not wrapper.is_dataframe([1]) and not wrapper.is_column([1])
