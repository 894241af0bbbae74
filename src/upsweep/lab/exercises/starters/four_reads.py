"""Exercise 22: the sum of any box in four reads (CS380 lecture 24, A - B - C + D; Crow 1984).

`table` is a summed-area table, `width` items a row. Give the sum of the items from row tops[i] to bottoms[i] and from column
lefts[i] to rights[i], all included. This one takes the strip above away, and forgets the strip to the left.

Marks: values, no race and no wild access, no operation too many.
"""

from upsweep.textbook.dialect import cuda


def four_reads(table, tops, lefts, bottoms, rights, width, y, n):
    i = cuda.grid(1)
    if i < n:
        total = table[bottoms[i] * width + rights[i]]
        if tops[i] > 0:
            total = total - table[(tops[i] - 1) * width + rights[i]]
        y[i] = total
