"""Schemas from annotations are those that PyTorch infers."""

import inspect
import types
import typing

import pytest

import rushlight as rl

torch = pytest.importorskip("torch", reason="the oracle is not installed")

SIGNATURES = {
    "numbers": "(a: T, b: float | None, c: 'int | None' = None, g: Union[int, float] = 1) -> 'T'",
    "lists": "(a: T, d: Optional[List[int]] = None, c: list[T] = None) -> tuple[T, T]",
    "keywords": "(a: T, *, s: str = 'x', f: float = 1e-5, i: int = -1, t: bool = True) -> List[T]",
    "values": "(a: T, dt: D = None, w: Optional[D] = None, v: V = 'cpu') -> None",
    "optional": "(a: Optional[T], b: 'Sequence[Optional[T]]') -> None",
    "number back": "(a: T) -> int",
    "several back": "(a: T, b: 'list[int] | None' = None) -> Tuple[T, int]",
    "a dict": "(a: T, b: Dict[str, int]) -> T",
    "no annotation": "(a, b: int) -> T",
    "stars": "(*a: int) -> T",
    "nothing back": "(a: T)",
    "a tuple as default": "(a: T, b: Sequence[int] = ()) -> T",
}


def functions(text):
    """The function in the terms of both libraries, its annotations text or not."""
    for library in rl, torch:
        space = {
            **vars(typing),
            "T": library.Tensor,
            "D": library.dtype,
            "V": library.device,
        }
        exec(f"def f{text}: pass", space)
        yield library, space["f"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mutates", [(), ("a",), "unknown"], ids=str)
@pytest.mark.parametrize("case", SIGNATURES)
def test_the_schema_of_a_function_is_pytorchs(case, mutates):
    answers = []
    for library, function in functions(SIGNATURES[case]):
        assert isinstance(function, types.FunctionType) and inspect.signature(function)
        try:
            answers.append(library.library.infer_schema(function, mutates_args=mutates))
        except ValueError as error:
            answers.append(str(error)[:60])
    assert answers[0] == answers[1]
