"""Exercise 20: a range of a histogram in two reads (CS380 lecture 24, "range histogram").

The histogram's inclusive prefixes are there: prefixes[b] counts the items in bins 0 to b. How many items lie in bins low to
high, both included? The slide's prefixes[high] - prefixes[low] is wrong.

Marks: values, no race and no wild access, no operation too many.
"""

from upsweep.textbook.dialect import cuda


def range_query(prefixes, lows, highs, y, n):
    i = cuda.grid(1)
    if i < n:
        y[i] = prefixes[highs[i]] - prefixes[lows[i]]
