"""Exercise 14: count the conflicts before you see them (CS380 lecture 24, bank conflicts).

A degree is how many words of one bank are asked for at once; 1 is no conflict. Write down your numbers first, then look:
`upsweep lab reduction --n 64` shows the banks of every access.

Marks: a share for each right answer, and the reason for each wrong one.
"""

# The reduction tree of 64 leaves reads xy[left] on each of its six levels. With 16 banks, served for half a warp at a time,
# what is the worst degree of each level? Six numbers.
HALF_WARPS = ...

# The same with 32 banks, served for a whole warp.
FULL_WARPS = ...

# The padded tree of 512 items, a + (a >> 5), with 32 banks: its worst degree.
PADDED = ...

# The same with the padding of 16 banks, a + (a >> 4), on 32 banks.
PADDED_FOR_16 = ...

# A warp reads xy[3 * t] with 32 banks.
ODD_STRIDE = ...
