"""Exercise 16: which warps part, and which sectors move (PMPP chapter 11, control divergence; CS380, loads).

A warp of 32 parts where its threads go different ways at a branch. Count how often that happens in a block of 1024 threads.

Marks: a share for each right answer, and the reason for each wrong one.
"""

# Kogge-Stone, 1024 items: at `if t >= stride and i < n`, how often does a warp part, over all levels?
KOGGE_STONE = ...

# The reduction of 1024 items with `(t + 1) % (2 * stride) == 0`.
MODULO = ...

# The reduction of 1024 items by neighbouring threads, 512 of them, at `if left < right`.
NEIGHBOURS = ...

# 256 words of four bytes are loaded as x[t] and x[t + 128]: how many sectors of 32 bytes are moved?
HALF_SPLIT_SECTORS = ...

# The same loaded as x[2 * t] and x[2 * t + 1].
INTERLEAVED_SECTORS = ...
