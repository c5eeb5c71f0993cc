"""What is asked of tables: of pandas', or of what a wrapper knows."""

import sys
from typing import Any


def _pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise RuntimeError(
            "DataFrames prototype requires pandas to function"
        ) from error
    return pandas


class PandasWrapper:
    """What is asked of tables, answered by pandas."""

    @classmethod
    def create_dataframe(cls, data, columns):
        """A table of rows."""
        return _pandas().DataFrame(data, columns=columns)

    @classmethod
    def is_dataframe(cls, data):
        """Whether something is a table."""
        # Nothing is, before pandas has been imported.
        return "pandas" in sys.modules and isinstance(data, _pandas().DataFrame)

    @classmethod
    def is_column(cls, data):
        """Whether something is a column of one."""
        return "pandas" in sys.modules and isinstance(data, _pandas().Series)

    @classmethod
    def iterate(cls, data):
        """The rows of a table as tuples, or the elements of a column."""
        if cls.is_column(data):
            yield from data
        else:
            yield from data.itertuples(index=False)

    @classmethod
    def concat(cls, buffer):
        """The rows of several tables in one."""
        return _pandas().concat(buffer)

    @classmethod
    def get_item(cls, data, idx):
        """A table of one row."""
        return data[idx : idx + 1]

    @classmethod
    def get_len(cls, df):
        """How many rows there are."""
        return len(df.index)

    @classmethod
    def get_columns(cls, df):
        """The names of the columns."""
        return list(df.columns.values.tolist())


default_wrapper: Any = PandasWrapper


def get_df_wrapper():
    """Who is asked."""
    return default_wrapper


def set_df_wrapper(wrapper) -> None:
    """Says who is asked from now on."""
    global default_wrapper
    default_wrapper = wrapper


def create_dataframe(data, columns=None):
    """A table of rows."""
    return default_wrapper.create_dataframe(data, columns)


def is_dataframe(data):
    """Whether something is a table."""
    return default_wrapper.is_dataframe(data)


def get_columns(data):
    """The names of a table's columns."""
    return default_wrapper.get_columns(data)


def is_column(data):
    """Whether something is a column of a table."""
    return default_wrapper.is_column(data)


def concat(buffer):
    """The rows of several tables in one."""
    return default_wrapper.concat(buffer)


def iterate(data):
    """The rows of a table as tuples, or the elements of a column."""
    return default_wrapper.iterate(data)


def get_item(data, idx):
    """A table of one row."""
    return default_wrapper.get_item(data, idx)


def get_len(df):
    """How many rows a table has."""
    return default_wrapper.get_len(df)
