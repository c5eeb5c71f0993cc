"""The order of a packed weight's words: threes first whose products fit in 16 bits together."""

from __future__ import annotations

from rushlight.codegen.language import maximum, minimum
from rushlight.codegen.loops import i32, i64, local, loops, loops_inline, u8
from rushlight.core.dtypes import int32, int64, uint8
from rushlight.operators import call as ops
from rushlight.operators.loop_calls import run

REACH = 16  # words of which two are looked for that fit to the first
MOST_NARROW = 128  # what a byte of an input that is called narrow is at most


@loops_inline
def add_word(up, down, panels, at, lanes, sign):
    """Adds a word to sums, or takes it off again; whether all lanes stay in 16 bits."""
    most, least = i32(0), i32(0)
    for k in range(lanes):
        a, b = i32(panels[at + 2 * k]), i32(panels[at + 2 * k + 1])
        up[k] = up[k] + sign * (maximum(a, 0) + maximum(b, 0))
        down[k] = down[k] + sign * (minimum(a, 0) + minimum(b, 0))
        most, least = maximum(most, up[k]), minimum(least, down[k])
    return most * MOST_NARROW < 32768 and least * MOST_NARROW >= -32768


@loops_inline
def find_three(three, up, down, taken, panels, own, word, words, lanes):
    """Which words go with one: how many were found of three, itself among them."""
    for k in range(lanes):
        up[k], down[k] = i32(0), i32(0)
    found = i64(0)
    for other in range(word, minimum(word + REACH, words)):
        if found < 3 and taken[own + other] == u8(0):
            at = (own + other) * lanes * 2
            if add_word(up, down, panels, at, lanes, i32(1)):
                three[found] = i64(other)
                found = found + 1
            else:
                add_word(up, down, panels, at, lanes, i32(-1))
    return found


@loops_inline
def keep_three(order, taken, three, at, own):
    """Writes the numbers of three words, which are taken then."""
    for k in range(3):
        order[at + k] = i32(three[k])
        taken[own + three[k]] = u8(1)


@loops
def threes_kernel(
    order: "i32*",
    taken: "u8*",
    panels: "i8*",
    words: int,
    columns: int,
    begin: int,
    end: int,
):
    """For each panel how many threes of words there are, and the numbers of all words.

    A word takes the first two of the next `REACH` that fit in; one that finds none comes
    behind all threes. A lane is two bytes of a column, whose products are summed.
    """
    up = local("i32", 64)  # of the words so far, what is above zero in each lane
    down = local("i32", 64)
    three = local("i64", 3)
    for panel in range(begin, end):
        own, count, rest = panel * words, i64(0), i64(words)
        first = own + panel  # of the panel's order
        for word in range(words):
            if taken[own + word] == u8(0):
                found = find_three(
                    three, up, down, taken, panels, own, word, words, 2 * columns
                )
                if found == 3:
                    keep_three(order, taken, three, first + 1 + 3 * count, own)
                    count = count + 1
                else:
                    order[first + rest] = i32(word)
                    rest = rest - 1
        order[first] = i32(count)


def grouped(packed, words):
    """A packed weight with its words in threes first, as far as sums of them fit in 16 bits.

    Args:
        packed: int8 of groups, panels, words, columns, and the four bytes of a word.
        words: of a panel.

    Returns:
        the same in another order of words; int32, for each panel how many threes there
        are and the number of each word.
    """
    columns = packed.shape[-2]
    count = packed.shape[0] * packed.shape[1]
    panels = packed.view([count, words, columns, 4])
    order = ops.zeros([count, words + 1], dtype=int32)
    taken = ops.zeros([count, words], dtype=uint8)
    work = REACH * words * columns
    run(threes_kernel, [order, taken, panels], [words, columns], count, work)
    spread = ops.slice(order, 1, 1).view([count, words, 1, 1]).expand(panels.shape)
    panels = ops.gather(panels, 1, spread.to(int64))
    return panels.view(packed.shape).contiguous(), order
