from libc.stdint cimport int64_t

# In place of a dtype's code where kernels of products are looked for.
cdef enum:
    PAIRS = 63                      # bfloat16 whose neighbours along the depth go together
    TILES = 62                      # what the processor's unit of tiles multiplies

# How a product reads its right operand.
cdef enum:
    DIRECT                          # in place
    COPIED                          # into panels
    TRANSPOSED                      # into panels, a square at a time
    GATHERED                        # into panels, an element at a time

# The arrays of products, in order; those of what is behind follow.
cdef enum:
    OUT
    LEFT                            # of a product with a vector: the matrix
    RIGHT
    ADDED
    EPILOGUE_VECTOR                   # where the arrays of what is behind a vector begin
    SUMS = 4                        # where sums wait for more depth
    EPILOGUE_PRODUCT                  # where those behind a product begin

# Two numbers of each operand behind a product; of one behind a vector `row` is from
# result to result.
ctypedef struct EpilogueSteps:
    int64_t row
    int64_t batch

ctypedef struct ProductPlan:
    int64_t rows
    int64_t columns
    int64_t depth
    int64_t a_row
    int64_t a_column
    int64_t b_row
    int64_t b_column
    int64_t out_row
    int64_t added_row
    int64_t sums_row
    int64_t a_batch
    int64_t b_batch
    int64_t out_batch
    int64_t added_batch
    int64_t sums_batch
    int64_t added                   # whether anything is
    int64_t row_block
    int64_t column_block
    int64_t right_mode

# Dot products of the rows of `a` with the vector `b`.
ctypedef struct DotsPlan:
    int64_t rows
    int64_t depth
    int64_t a_row
    int64_t out_row
    int64_t added_row
    int64_t a_batch
    int64_t b_batch
    int64_t out_batch
    int64_t added_batch
    int64_t added
    int64_t row_block

# The rows of `b`, each times an element of a row of `a`, added up.
ctypedef struct CombinePlan:
    int64_t rows
    int64_t columns
    int64_t depth
    int64_t a_row
    int64_t a_column
    int64_t b_row
    int64_t out_row
    int64_t added_row
    int64_t added_column
    int64_t a_batch
    int64_t b_batch
    int64_t out_batch
    int64_t added_batch
    int64_t added
    int64_t column_block

# A plan, and what is behind it.
ctypedef struct ProductCall:
    ProductPlan plan
    EpilogueSteps epilogue[24]

ctypedef struct DotsCall:
    DotsPlan plan
    EpilogueSteps epilogue[24]

ctypedef struct CombineCall:
    CombinePlan plan
    EpilogueSteps epilogue[24]

# Loops outermost first; steps in bytes.
ctypedef struct ReductionPlan:
    int64_t reduced[3]              # sizes of the loops along a row
    int64_t along[3]                # the input's steps in them
    int64_t kept[3]                 # sizes of the loops over rows
    int64_t between[3]              # the input's steps in them
    int64_t out[3]                  # the result's
    int64_t second[3]               # a second result's
