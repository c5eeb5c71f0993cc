"""How convolutions are cut and what integers their kernels get: geometry only."""

import functools
import itertools
import math

COLUMNS = 320  # positions in a block of patches, see `convolution_kernels`
SMALL_PLANE = 160  # planes below this size share blocks with other images
BAND = 192  # output channels of a buffered block
EXCHANGES = 2  # blocks of positions that exchange the same filters, at most
PARALLEL_WORK = 1 << 18  # multiplications worth a second thread
PACKING = 7  # multiplications that writing a patch element costs
LANES = 16  # of a vector; fewer on other machines waste fewer lanes
PAGE = 1024  # positions of a plane that lie in one page of memory
MANY_CHANNELS = 128  # planes in more pages than a processor has at hand
MOST_TAPS = 49  # see `convolution_depthwise`
BAND_ROWS, MOST_BAND = 8, 1 << 17  # rows of results, bytes of the input that they see
NOTHING = ((0, 0), (0, 0), (0, 0))  # no margins
WINOGRAD_SQUARES = 64  # of 2 x 2 outputs each, that a chunk of `winograd` has at most
WINOGRAD_BAND = 96  # output channels that it has
WINOGRAD_DEPTH = (
    64  # channels whose squares are held, and summed in registers, at a time
)
PIXEL_SQUARES = 66  # rows of a chunk of `winograd_pixels`: whole tiles of six
WINOGRAD_CHANNELS = 16  # fewer do not pay for what is transformed
FILTER_SQUARES = 6  # squares for each lane of a vector that pay for transformed filters
PIXEL_LANES = 4  # as many lanes count where a vector holds channels
LARGE_WEIGHT = 1 << 18  # weights of this size are cut by rows, not summed from parts


def spread(values, count):
    """Spatial values as a triple, ones in front.

    >>> spread((3, 5), 1)
    (1, 3, 5)
    """
    return (count,) * (3 - len(values)) + tuple(values)


def output_size(size, kernel, stride, padding, dilation):
    """Positions that a kernel takes along one dimension."""
    return (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


class Geometry:
    """Sizes of a convolution, with three spatial dimensions.

    Args:
        input, weight: shapes.
        output: the output's spatial sizes.
    """

    def __init__(self, input, weight, output, stride, padding, dilation, groups):
        self.images, self.channels = input[:2]
        self.rows = weight[0]
        self.groups = groups
        self.group_rows = weight[0] // groups
        self.group_channels = weight[1]
        self.input, self.kernel = spread(input[2:], 1), spread(weight[2:], 1)
        self.output, self.stride = spread(output, 1), spread(stride, 1)
        self.padding, self.dilation = spread(padding, 0), spread(dilation, 1)
        self.taps = math.prod(self.kernel)
        self.work = (
            self.images
            * math.prod(self.output)
            * self.rows
            * self.group_channels
            * self.taps
        )
        self.simple = (
            self.taps == 1 and set(self.stride) == {1} and not any(self.padding)
        )
        if self.simple:
            self.input = self.output = (1, 1, math.prod(self.output))

    def in_place(self, channels):
        """Whether patches are the input itself, and read where it lies.

        Many large planes are copied: of each a page has to be found for every tile.
        """
        far = math.prod(self.output) > PAGE and channels >= MANY_CHANNELS
        return self.simple and not far

    @property
    def depth(self):
        """Weights of one output channel."""
        return self.group_channels * self.taps

    def is_direct(self, rows, grid):
        """Whether vectors are better read from the images than from patches."""
        return not self.simple and is_direct(rows, grid[2], self.stride[2])

    @property
    def is_wide(self):
        """Whether half of the vectors along a line of results are whole ones."""
        line = self.output[2]
        return 2 * (line // LANES) >= -(-line // LANES)

    @property
    def is_depthwise(self):
        """Whether each output channel has one input channel, and rows are wide."""
        return self.has_planes and 4 * self.output[2] >= LANES

    @property
    def has_planes(self):
        """Whether each output channel has one input channel, and steps are one or two."""
        return (
            self.group_channels == 1
            and not self.simple
            and self.input[0] == self.kernel[0] == self.output[0] == 1
            and self.stride in ((1, 1, 1), (1, 2, 2))
            and self.dilation[1] == 1
            and self.taps <= MOST_TAPS
        )

    @property
    def is_scheduled(self):
        """Whether `depthwise_schedule` has each output channel of one input channel."""
        return (
            self.group_channels == 1
            and not self.simple
            and self.input[0] == self.kernel[0] == self.output[0] == 1
            and self.work >= 2 * PARALLEL_WORK
        )

    @property
    def has_wide_bands(self):
        """Whether rows of results are wide, and what some see of the input fits a stack."""
        rows, columns = (
            (n - 1) * step + far * (taps - 1) + 1
            for n, step, far, taps in zip(
                (BAND_ROWS, self.output[2] + LANES),
                self.stride[1:],
                self.dilation[1:],
                self.kernel[1:],
                strict=True,
            )
        )
        return 4 * self.output[2] >= LANES and 8 * rows * columns <= MOST_BAND

    @property
    def scheduled(self):
        """What `depthwise_schedule` goes by, as the name of a kind; see `of_kind`."""
        sizes = zip(
            *(self.input, self.output, self.kernel, self.stride),
            *(self.padding, self.dilation),
            strict=True,
        )
        _, down, across = sizes
        return "_".join(map(str, ("planes", self.channels, self.rows, *down, *across)))

    @classmethod
    def of_kind(cls, kind):
        """The geometry that `scheduled` names, of one image."""
        channels, rows, *sizes = map(int, kind.split("_")[1:])
        axes = zip(sizes[: len(sizes) // 2], sizes[len(sizes) // 2 :], strict=True)
        size, output, taps, *rest = axes
        return cls((1, channels, *size), (rows, 1, *taps), output, *rest, channels)

    def is_minimal(self, lanes):
        """Whether `winograd` saves work: 3 x 3 taps, many channels and squares, no steps."""
        squares = math.prod(self.squares)
        return (
            self.kernel == (1, 3, 3)
            and self.input[0] == self.output[0] == self.groups == 1
            and self.stride == self.dilation == (1, 1, 1)
            and min(self.channels, self.rows) >= WINOGRAD_CHANNELS
            and squares * self.images >= FILTER_SQUARES * lanes
        )

    @property
    def squares(self):
        """Squares of 2 x 2 outputs, down and across."""
        return tuple(-(-size // 2) for size in self.output[1:])

    @property
    def winograd_ints(self):
        """What kernels by transformed filters are told first."""
        sizes = *self.input[1:], *self.output[1:], *self.padding[1:], *self.squares
        return (self.channels, self.rows, *sizes, self.images)

    def patches(self):
        """Margins that the input needs, and the walk over its patches."""
        first = [-p for p in self.padding]
        margins = tuple(
            itertools.starmap(
                reach,
                zip(
                    self.input,
                    self.output,
                    self.stride,
                    first,
                    self.dilation,
                    self.kernel,
                    strict=True,
                ),
            )
        )
        return margins, patch_ints(
            self.channels,
            grown(self.input, margins),
            self.group_channels,
            self.kernel,
            [low + f for (low, _), f in zip(margins, first, strict=True)],
            self.dilation,
            self.output,
            self.stride,
        )


def grown(sizes, margins):
    """Sizes with their margins."""
    return tuple(
        size + low + high for size, (low, high) in zip(sizes, margins, strict=True)
    )


def patch_ints(
    channels, sizes, group_channels, taps, first, step, grid, stride, channels_last=0
):
    """The walk over the patches of row-major images of ``channels`` planes."""
    plane = sizes[1] * sizes[2]
    volume = sizes[0] * plane
    return (
        channels * volume,
        volume,
        plane,
        sizes[2],
        group_channels,
        *taps,
        *first,
        *step,
        channels_last,
        *grid,
        *stride,
    )


def reach(size, grid, step, first, tap, taps):
    """Elements that an axis needs before and after its ``size``.

    >>> reach(28, 28, 1, -2, 1, 5)
    (2, 2)
    """
    ends = (first, first + (taps - 1) * tap)
    last = max(ends) + (grid - 1) * step
    return max(0, -min(ends)), max(0, last - size + 1)


def bands_for(threads, chunks, bands, rows, least=24):
    """Bands of output channels that give threads as many chunks each, or four or more.

    Each band writes, or transforms, what it reads of the input again: as few as do.

    Args:
        chunks: how many there are of one band.
        bands: the least.
        rows: output channels; bands have the ``least`` of them, or more.

    >>> [bands_for(threads, 3, 1, 256) for threads in (1, 2, 3, 8)]
    [1, 2, 1, 8]
    """
    even = threads // math.gcd(chunks, threads)
    wanted = min(-(-bands // even) * even, max(bands, -(-4 * threads // chunks)))
    return max(bands, min(wanted, -(-rows // least)))


def blocks(
    images, positions, rows, groups, work, buffered, in_place, threads, whole=True
):
    """How images, positions and rows are cut, and the number of chunks.

    Args:
        buffered: whether results are spread over the output.
        in_place: whether patches are the input itself, and read there.
        whole: whether few blocks of positions may have one band, however many rows it has.
    """
    held = together(images, positions) if positions < SMALL_PLANE else 1
    across = -(-held * positions // COLUMNS)
    width = min(COLUMNS, -(-held * positions // (across * 64)) * 64)
    if held > 1:
        across, width = 1, held * positions
    buffered = buffered or held > 1
    chunks = groups * across * -(-images // held)
    few = chunks <= EXCHANGES * groups
    bands = -(-rows // BAND) if buffered or (few and not whole) else 1
    if work > 16 * PARALLEL_WORK:
        bands = bands_for(threads, chunks, bands, rows)
    band = -(-rows // (bands * 6)) * 6
    chunks *= -(-rows // band)
    packed = int(held > 1 or not in_place)
    return (packed, images, held, width, rows, band, groups), int(buffered), chunks


def is_direct(rows, line, step):
    """Whether few rows make up for the lanes that lines of positions waste."""
    vectors = -(-line // LANES) * LANES
    return step == 1 and vectors * rows < line * (rows + PACKING)


def together(images, positions):
    """Images that share a block of positions: so many that two threads end together.

    >>> together(8, 100), together(9, 100), together(3, 100)
    (2, 3, 3)
    """
    most = max(1, COLUMNS // positions)
    if images <= most:
        return images
    sizes = range(most, (most - 1) // 2, -1)
    enough = 0.55 * images  # larger blocks read their filters less often
    return min(sizes, key=lambda held: max(held * -(-images // (2 * held)), enough))


@functools.lru_cache(maxsize=512)
def forward_plan(
    input,
    weight,
    output,
    stride,
    padding,
    dilation,
    groups,
    biased,
    fused=False,
    threads=1,
):
    """The kernel, margins of the input, integers, chunks and grain.

    Args:
        threads: how many share the work.
        fused: whether something is traced behind it that wants sums in a block apart.
    """
    g = Geometry(input, weight, output, stride, padding, dilation, groups)
    positions = math.prod(g.output)
    if not fused and g.is_depthwise:
        ints = (
            *(g.channels, g.rows, g.group_rows, *g.input[1:], *g.output[1:]),
            *(*g.padding[1:], g.dilation[2], int(biased)),
        )
        kind = "_".join(map(str, ("depthwise", *g.kernel[1:], *g.stride[1:])))
        chunks = g.images * g.rows
        return kind, g.input, NOTHING, ints, chunks, grain_of(g.work, chunks)
    if not fused and g.is_scheduled and g.has_wide_bands:
        kind, chunks = f"{g.scheduled}_{int(biased)}", g.images * g.channels
        return kind, g.input, NOTHING, (), chunks, grain_of(g.work, chunks)
    cut, buffered, chunks = blocks(
        g.images,
        positions,
        g.group_rows,
        g.groups,
        g.work,
        fused,
        g.in_place(g.group_channels),
        threads,
    )
    margins, walk = g.patches()
    ints = (
        *walk,
        *cut,
        *(g.group_rows, g.group_channels, int(biased), buffered),
        *(g.rows * positions, positions, 1, 1, positions, positions, positions, 1, 0),
    )
    direct = not fused and g.is_direct(g.group_rows, g.output)
    kind = "few_channels" if direct else "forward"
    return kind, g.input, margins, ints, chunks, grain_of(g.work, chunks)


@functools.lru_cache(maxsize=512)
def winograd_plan(geometry, biased, flipped, lanes, threads=1):
    """`forward_plan` by transformed filters: integers, chunks, grain; None if it is not worth it.

    Args:
        geometry: what `Geometry` takes.
        flipped: whether ``weight`` lies as that of the convolution whose input's gradient
            this is: its first two dimensions exchanged, its taps in reverse.
        lanes: of a vector; None where images' channels are innermost. Then output channels
            are in the weight too, by `transpose_weight` where it is not flipped.
    """
    g = Geometry(*geometry)
    channels_last = lanes is None
    if not g.is_minimal(PIXEL_LANES if channels_last else lanes):
        return None
    squares = g.images * math.prod(g.squares)
    most, unit, rows = WINOGRAD_SQUARES, LANES, 6
    if channels_last:
        most, unit, rows = PIXEL_SQUARES, 6, LANES
    blocks = -(-squares // most)
    if blocks > 1:
        blocks += -blocks % min(threads, 2)  # two threads have as many
    width = -(-squares // (blocks * unit)) * unit
    chunks = -(-squares // width)
    bands = -(-g.rows // WINOGRAD_BAND)
    if g.work > 16 * PARALLEL_WORK:
        bands = bands_for(threads, chunks, bands, g.rows, 4 * rows)
    band = -(-g.rows // (bands * rows)) * rows
    chunks *= -(-g.rows // band)
    steps = (9, g.rows * 9, -3, -1, 8) if flipped else (g.channels * 9, 9, 3, 1, 0)
    if channels_last:
        steps = (1, g.rows, *(n * g.channels * g.rows for n in (3, 1, 0)))
        if flipped:  # channels of the result are adjacent in the weight as it is
            steps = (1, 9 * g.rows, -3 * g.rows, -g.rows, 8 * g.rows)
    # Filters lie as the weight does: each is read where the one before it was
    filter_strides = (1, g.rows) if flipped else (g.channels, 1)
    ints = (*g.winograd_ints, width, band, int(biased), *filter_strides, *steps)
    return ints, chunks, grain_of(g.work, chunks)


def grain_of(work, chunks):
    """Chunks that a thread takes at a time; all where there is little work."""
    return chunks if work < PARALLEL_WORK else max(1, chunks // 64)


@functools.lru_cache(maxsize=512)
def input_plan(input, weight, output, stride, padding, dilation, groups, threads=1):
    """One kernel run for each phase of the stride: where input positions share taps.

    Returns:
        Whether some positions have no tap; sizes and margins of the output's gradient;
        a `phase_run` for each phase.
    """
    g = Geometry(input, weight, output, stride, padding, dilation, groups)
    phases, gaps = [], False
    for phase in itertools.product(*map(range, map(min, g.stride, g.input))):
        axes = [
            PhaseAxis(*values)
            for values in zip(
                phase, g.input, g.kernel, g.stride, g.padding, g.dilation, strict=True
            )
        ]
        gaps = gaps or any(axis.taps == 0 for axis in axes)
        if all(axis.taps and axis.count for axis in axes):
            phases.append((phase, axes))
    reaches = [
        [axis.reach(size) for axis, size in zip(axes, g.output, strict=True)]
        for _, axes in phases
    ]
    margins = (
        tuple(
            tuple(max(r[d][side] for r in reaches) for side in (0, 1)) for d in range(3)
        )
        if reaches
        else ()
    )
    # Of planes that lie whole pages apart all channels fall on one line of the cache.
    if any(map(any, margins)) and math.prod(grown(g.output, margins)[1:]) % PAGE == 0:
        margins = (*margins[:2], (margins[2][0], margins[2][1] + 1))
    return (
        gaps,
        g.output,
        margins,
        [phase_run(g, phase, axes, margins, threads) for phase, axes in phases],
    )


def phase_walk(g, axes, margins, grid, exchanged):
    """The walk over patches of the output's gradient that a phase sees."""
    return patch_ints(
        g.rows,
        grown(g.output, margins),
        g.group_rows,
        [axis.taps for axis in axes],
        [low + axis.first for axis, (low, _) in zip(axes, margins, strict=True)],
        [axis.step for axis in axes],
        grid,
        (1, 1, 1),
        int(not exchanged),
    )


def phase_run(g, phase, axes, margins, threads):
    """Kernel, slices of taps, first position, integers, chunks and grain of a phase.

    There are no slices where the kernel takes the weight as it is, and exchanges its first
    two dimensions itself: where few blocks of positions read the same filters.
    """
    grid = [axis.count for axis in axes]
    strided = set(g.stride) != {1}
    volume = math.prod(g.input)
    cut, buffered, chunks = blocks(
        g.images,
        math.prod(grid),
        g.group_channels,
        g.groups,
        g.work,
        strided,
        g.in_place(g.group_rows),
        threads,
        whole=False,
    )
    runs = (1, 1, volume, volume, volume, 1)
    if strided:
        plane = g.input[1] * g.input[2]
        steps = g.stride[0] * plane, g.stride[1] * g.input[2], g.stride[2]
        runs = (*grid, *steps)
    kind = (
        "forward"
        if strided or not g.is_direct(g.group_channels, grid)
        else "few_channels"
    )
    exchanged = (
        kind == "forward"
        and not strided
        and cut[-2] <= BAND  # rows of a block
        and chunks <= EXCHANGES * g.groups * -(-g.group_channels // cut[-2])
    )
    ints = (
        *phase_walk(g, axes, margins, grid, exchanged),
        *cut,
        g.group_channels,
        g.group_rows,
        0,
        buffered,
        g.channels * volume,
        volume,
        *runs,
        int(exchanged),
    )
    offset = (phase[0] * g.input[1] + phase[1]) * g.input[2] + phase[2]
    slices = None if exchanged else [axis.slice for axis in axes]
    return kind, slices, offset, ints, chunks, grain_of(g.work, chunks)


class PhaseAxis:
    """Positions ``phase, phase + stride ...`` of an axis, and the taps they see."""

    def __init__(self, phase, size, kernel, stride, padding, dilation):
        self.count = -(-(size - phase) // stride) if phase < size else 0
        period = stride // math.gcd(stride, dilation)
        start = next(
            (
                k
                for k in range(min(period, kernel))
                if (phase + padding - k * dilation) % stride == 0
            ),
            kernel,
        )
        self.slice = slice(start, None, period)
        self.taps = len(range(start, kernel, period))
        self.first = (phase + padding - start * dilation) // stride
        self.step = -(period * dilation // stride)

    def reach(self, size):
        """Margins that the output's gradient needs."""
        return reach(size, self.count, 1, self.first, self.step, self.taps)
