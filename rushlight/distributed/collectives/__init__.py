"""The collectives themselves, over the frames and the memory of `transport`.

Every reduction adds in the order of the ranks, whatever its size and wherever its
ranks are: the same bits on every rank, from every algorithm.
"""
