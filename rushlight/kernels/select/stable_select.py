"""Selecting and sorting rows so that equal elements end where PyTorch leaves them.

Its `topk`, `kthvalue` and `mode` take values along with their places through selections
that are not stable: introspective selection and sort as the C++ standard library has
them, and Hoare's quick selection. Here are the same steps: of equal elements the same
ones are chosen. A row is a pair of arrays that are rearranged together.
"""

from __future__ import annotations

from rushlight.codegen.loops import i64, local, loops, loops_inline


@loops_inline
def comes_first(x, y, descending):
    """Whether ``x`` belongs strictly before ``y``; NaN counts as the largest value."""
    above = x > y or (x != x and y == y)
    below = x < y or (y != y and x == x)
    return above if descending else below


@loops_inline
def goes_before(x, y, rule):
    """The order: 0 ascending, 1 descending, NaN as the largest; 2 what ``<`` says."""
    return x < y if rule == 2 else comes_first(x, y, rule)


@loops_inline
def swap(v, p, i, j):
    """Exchanges two elements of a row."""
    value = v[i]
    place = p[i]
    v[i] = v[j]
    p[i] = p[j]
    v[j] = value
    p[j] = place


@loops_inline
def median_to_front(v, p, first, middle, last, rule):
    """Puts the median of the second, the middle and the last element first."""
    a = v[first + 1]
    b = v[middle]
    c = v[last]
    chosen = first + 1
    if goes_before(a, b, rule):
        if goes_before(b, c, rule):
            chosen = middle
        elif goes_before(a, c, rule):
            chosen = last
    elif not goes_before(a, c, rule):
        chosen = middle
        if goes_before(b, c, rule):
            chosen = last
    swap(v, p, first, chosen)


@loops_inline
def part(v, p, first, end, rule):
    """Divides ``[first, end)`` by its pivot; where the second part begins."""
    median_to_front(v, p, first, first + (end - first) // 2, end - 1, rule)
    pivot = v[first]
    low = first + 1
    high = end
    going = True
    while going:
        while low < end and goes_before(v[low], pivot, rule):
            low = low + 1
        high = high - 1
        while high > first and goes_before(pivot, v[high], rule):
            high = high - 1
        if low < high:
            swap(v, p, low, high)
            low = low + 1
        else:
            going = False
    return low


@loops_inline
def insert_all(v, p, first, begin, end, rule):
    """Inserts each element of ``[begin, end)`` among those before it, from ``first`` on.

    One of the first 16 that belongs before the first goes to the front at once: it
    matters where NaN, which nothing goes before, is in between.
    """
    for i in range(begin, end):
        value = v[i]
        place = p[i]
        hole = i
        leads = i < first + 16 and goes_before(value, v[first], rule)
        while hole > first and (leads or goes_before(value, v[hole - 1], rule)):
            v[hole] = v[hole - 1]
            p[hole] = p[hole - 1]
            hole = hole - 1
        v[hole] = value
        p[hole] = place


@loops_inline
def settle(v, p, first, start, length, value, place, rule):
    """Lets a hole sink through a heap to a leaf, then the value rise from there."""
    hole = start
    child = start
    while child < (length - 1) // 2:
        child = 2 * (child + 1)
        if goes_before(v[first + child], v[first + child - 1], rule):
            child = child - 1
        v[first + hole] = v[first + child]
        p[first + hole] = p[first + child]
        hole = child
    if length % 2 == 0 and child == (length - 2) // 2:
        child = 2 * (child + 1)
        v[first + hole] = v[first + child - 1]
        p[first + hole] = p[first + child - 1]
        hole = child - 1
    parent = (hole - 1) // 2
    while hole > start and goes_before(v[first + parent], value, rule):
        v[first + hole] = v[first + parent]
        p[first + hole] = p[first + parent]
        hole = parent
        parent = (hole - 1) // 2
    v[first + hole] = value
    p[first + hole] = place


@loops_inline
def make_heap(v, p, first, length, rule):
    """The elements from ``first`` on as a heap whose top goes last."""
    for k in range(length // 2):
        start = length // 2 - 1 - k
        settle(v, p, first, start, length, v[first + start], p[first + start], rule)


@loops_inline
def heap_select(v, p, first, middle, end, rule):
    """The elements that go first in a heap before ``middle``, the last of them on top."""
    length = middle - first
    make_heap(v, p, first, length, rule)
    for i in range(middle, end):
        if goes_before(v[i], v[first], rule):
            value = v[i]
            place = p[i]
            v[i] = v[first]
            p[i] = p[first]
            settle(v, p, first, 0, length, value, place, rule)


@loops_inline
def sort_heap(v, p, first, end, rule):
    """A heap in order: its top goes to the end of what is left, again and again."""
    for k in range(end - first - 1):
        last = end - 1 - k
        value = v[last]
        place = p[last]
        v[last] = v[first]
        p[last] = p[first]
        settle(v, p, first, 0, last - first, value, place, rule)


@loops_inline
def depth_of(size):
    """How often a row may be parted before a heap takes over."""
    depth = 0
    left = size
    while left > 1:
        left = left // 2
        depth = depth + 2
    return depth


@loops_inline
def select_rank(v, p, base, size, rank, rule):
    """The element of a rank at its place, none that goes after it before it."""
    first = base
    end = base + size
    nth = base + rank
    depth = depth_of(size)
    done = False
    while not done and end - first > 3:
        if depth == 0:
            heap_select(v, p, first, nth + 1, end, rule)
            swap(v, p, first, nth)
            done = True
        else:
            depth = depth - 1
            cut = part(v, p, first, end, rule)
            if cut <= nth:
                first = cut
            else:
                end = cut
    if not done:
        insert_all(v, p, first, first + 1, end, rule)


@loops_inline
def sort_row(v, p, base, size, rule):
    """A whole row in order; the stack holds the parts to come: start, end, depth."""
    first = base
    end = base + size
    depth = depth_of(size)
    stack = local("i64", 384)
    waiting = 0
    going = True
    while going:
        if end - first > 16 and depth > 0:
            depth = depth - 1
            cut = part(v, p, first, end, rule)
            stack[3 * waiting] = cut
            stack[3 * waiting + 1] = end
            stack[3 * waiting + 2] = depth
            waiting = waiting + 1
            end = cut
        else:
            if end - first > 16:
                heap_select(v, p, first, end, end, rule)
                sort_heap(v, p, first, end, rule)
            if waiting > 0:
                waiting = waiting - 1
                first = stack[3 * waiting]
                end = stack[3 * waiting + 1]
                depth = stack[3 * waiting + 2]
            else:
                going = False
    insert_all(v, p, base, base + 1, base + size, rule)


@loops_inline
def fill_row(v, p, x, base, size):
    """The row's values, and their places in it."""
    for k in range(size):
        v[base + k] = x[base + k]
        p[base + k] = k


@loops
def quick_select(
    out: "T*",
    place: "i64*",
    x: "T*",
    v: "T*",
    p: "i64*",
    size: int,
    rank: int,
    begin: int,
    end: int,
):
    """The element of a rank in each row, by Hoare's selection with a median of three."""
    for row in range(begin, end):
        base = row * size
        fill_row(v, p, x, base, size)
        target = base + rank
        low = base
        high = base + size - 1
        while high > low + 1:
            swap(v, p, low + (high - low) // 2, low + 1)
            if comes_first(v[low + 1], v[high], 1):
                swap(v, p, low + 1, high)
            if comes_first(v[low], v[high], 1):
                swap(v, p, low, high)
            if comes_first(v[low + 1], v[low], 1):
                swap(v, p, low + 1, low)
            pivot = v[low]
            i = low + 1
            j = high
            going = True
            while going:
                i = i + 1
                while comes_first(pivot, v[i], 1):
                    i = i + 1
                j = j - 1
                while comes_first(v[j], pivot, 1):
                    j = j - 1
                if j < i:
                    going = False
                else:
                    swap(v, p, i, j)
            swap(v, p, low, j)
            if j <= target:
                low = i
            if j >= target:
                high = j - 1
        if high == low + 1:
            if comes_first(v[low], v[high], 1):
                swap(v, p, low, high)
        out[row] = v[target]
        place[row] = p[target]


@loops_inline
def any_first(x, start, stop, worst, largest):
    """Whether an element of a span belongs before ``worst``; read in vectors."""
    found = False
    for k in range(start, stop):
        found = found | comes_first(x[k], worst, largest)
    return found


@loops
def first_by_heap(
    out: "T*",
    index: "i64*",
    x: "T*",
    size: int,
    count: int,
    largest: int,
    begin: int,
    end: int,
):
    """The first few elements of each row: a heap of them, kept while reading it."""
    for row in range(begin, end):
        base = row * count
        line = row * size
        for k in range(count):
            out[base + k] = x[line + k]
            index[base + k] = k
        make_heap(out, index, base, count, largest)
        for start in range(count, size, 64):
            stop = min(start + 64, size)
            if any_first(x, line + start, line + stop, out[base], largest):
                for k in range(start, stop):
                    v = x[line + k]
                    if comes_first(v, out[base], largest):
                        settle(out, index, base, 0, count, v, k, largest)
        sort_heap(out, index, base, base + count, largest)


@loops
def first_by_parts(
    out: "T*",
    index: "i64*",
    x: "T*",
    v: "T*",
    p: "i64*",
    size: int,
    count: int,
    largest: int,
    ordered: int,
    begin: int,
    end: int,
):
    """The first elements of each row: the last of them is selected, the rest sorted."""
    for row in range(begin, end):
        base = row * size
        fill_row(v, p, x, base, size)
        select_rank(v, p, base, size, count - 1, largest)
        if ordered:
            sort_row(v, p, base, count - 1, largest)
        for k in range(count):
            out[row * count + k] = v[base + k]
            index[row * count + k] = p[base + k]


@loops_inline
def alike(x, y):
    """Whether neither belongs before the other."""
    return x == y or (x != x and y != y)


@loops
def find_ties(
    found: "i64*", out: "T*", x: "T*", size: int, count: int, begin: int, end: int
):
    """Whether equal elements are among a row's selected ones, or were left over."""
    for row in range(begin, end):
        tied = False
        for k in range(count - 1):
            tied = tied | alike(out[row * count + k], out[row * count + k + 1])
        worst = out[row * count + count - 1]
        same = 0
        for k in range(size):
            same = same + (1 if alike(x[row * size + k], worst) else 0)
        if tied or same > 1:
            found[0] = 1


@loops
def mode_rows(
    out: "T*",
    place: "i64*",
    x: "T*",
    v: "T*",
    p: "i64*",
    size: int,
    begin: int,
    end: int,
):
    """The first longest run of each sorted row, and the place of its last element."""
    for row in range(begin, end):
        base = row * size
        fill_row(v, p, x, base, size)
        sort_row(v, p, base, size, 2)
        most = 0
        length = 0
        for k in range(base, base + size):
            length = length + 1
            ends = True
            if k + 1 < base + size:
                ends = v[k] != v[k + 1]
            if ends:
                if length > most:
                    most = length
                    out[row] = v[k]
                    place[row] = p[k]
                length = 0


@loops
def median_rows(
    out: "T*",
    place: "i64*",
    x: "T*",
    v: "T*",
    p: "i64*",
    size: int,
    skip: int,
    begin: int,
    end: int,
):
    """The lower middle of each row; its first NaN where there is one not to skip.

    Of equal elements the middle one is the one that a stable sort puts there.
    """
    for row in range(begin, end):
        base = row * size
        fill_row(v, p, x, base, size)
        good = 0
        first = size
        for k in range(size):
            if x[base + k] == x[base + k]:
                good = good + 1
            else:
                first = min(first, k)
        if good < size and (not skip or good == 0):
            out[row] = x[base + first]
            place[row] = first
        else:
            rank = (good - 1) // 2
            select_rank(v, p, base, size, rank, 0)
            middle = v[base + rank]
            for k in range(size):
                if x[base + k] < middle:
                    rank = rank - 1
            found = i64(0)
            while rank > 0 or x[base + found] != middle:
                if x[base + found] == middle:
                    rank = rank - 1
                found = found + 1
            out[row] = middle
            place[row] = found
