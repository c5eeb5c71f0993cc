"""Every operator by its base name, whatever its namespace: what formulas call.

Empty until `rushlight.operators.registry` makes the operators that the tables declare.

>>> from rushlight.operators import call
>>> call.add.__name__
'add'
"""

TYPE_CHECKING = False
if TYPE_CHECKING:  # for readers of types, who see no operators here
    from typing import Any

    def __getattr__(name: str) -> Any: ...


del TYPE_CHECKING  # every name here is an operator's
