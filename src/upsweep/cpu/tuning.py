"""Numbers that only change the speed, each with the measurement that chose it."""

from __future__ import annotations

from typing import NamedTuple


class Tuning(NamedTuple):
    """Sizes of one class of kernels; powers of two. The items are of 4 bytes over all components; of larger ones there are
    fewer, in as many bytes."""

    chunk: int
    """Items along the axis that are swept at once."""
    width: int
    """Columns that are swept side by side; 1 where neighbours lie in a row."""
    tile: int
    """Bytes of a tile, which must stay in L2 between its two sweeps."""


# Chunks of scans by the tree are no longer than a span (`runs`). Before there were spans, ns an item, add, one thread, 2^18
# items in cache, AMD, loaded: chunks of 1024 .44, 2048 .32, 4096 .30, 16384 .29, 65536 .28; of float64 .78, .56, .51, .50, .47.
# Two threads, 2^25 float32, a copy .46: 2048 .59, 4096 .63, 8192 .95, 16384 .47, 65536 .56.
ROWS = Tuning(chunk=16384, width=1, tile=1 << 18)
AGAIN = 4
"""A tile along a row is one chunk, whose runs are swept up again as they are swept down. CPU time of chunks of 4096, which are
brought and swept up twice, over that of one chunk, two threads, AMD, loaded, 2^20, 2^22, 2^24 items: add f4 1.3 1.1 1.3, f8 1.4
1.2 1.1, recurrence f4 2.1 1.3 1.3, f8 1.8 1.5 1.5, segments f4 1.4 1.4 1.4, f8 1.0 1.5 1.4, logaddexp f4 1.25 1.3 1.2; of 2^23
items that must be brought together: every other f4 1.6, reversed 1.35, f2 1.1, squares by a map 1.5, a recurrence reversed 1.45,
of one coefficient 1.4, of every other item 1.6.

Where runs of several components are swept up again in rows that are no tiles, from FAR_BYTES on, chunks are so many times as
long as others. Time of keeping their block sums over this, one thread, AMD, loaded: recurrence f8 2^17 items 1.6, 2^20 1.7, f4
2^20 1.4, segments f4 and f8 2^20 1.4 1.4, exclusive ones 1.5, 2^23 items reversed or of one coefficient 1.3. In smaller rows
keeping is as fast or faster (segments f8 2^14 .76), with one component too (float64 2^20 .8, 2^25 1.1)."""
FAR_BYTES, FAR_CHUNK = 1 << 21, 2048
"""Items of a chunk where whole rows of more than so many bytes are scanned, but not in spans. ns an item as above, 2^20
float64: 1024 .78, 2048 .54, 4096 1.36, 16384 1.22; 2^21 float32: 1.22, .34, 1.05, .95. Reductions write nothing, and have such
chunks where items must be brought together: time by chunks of 16384 over that by 2048, one thread, AMD, loaded, 2^23 items,
reversed and every other one: float32 1.39 1.50, float64 1.55 1.36, int32 1.76 1.86, sums of squares by a map 1.3 to 1.7."""
# A strip's rows are stretches of memory that the processor fetches ahead. CPU time of a copy over ours, by 1024, 2048, 4096, 8192
# columns, two threads, AMD: float32 8192x8192 .76 .97 1.13 1.13, 8192x8000 1.01 1.27 1.43 1.41. Time, to float64:
# 1 .75 .69 .70, of a recurrence: 1 .80 .70 .64.
COLUMNS = Tuning(chunk=16, width=4096, tile=1 << 18)
ROWS_TURNED = 1024
"""Rows of items side by side that are swept at once: what they are transposed to must stay in a near cache. Time by 1024, 2048,
4096 rows, one thread, AMD, loaded: recurrence, rows of 100 1 1.19 1.25."""

LANES, COSTLY_LANES = 32, 64
"""Bytes of the runs that are swept at once, an item of each; of a costly operator several vectors at once hide how long each
takes. ns an item by 16, 32, 64, 128 bytes, AMD, loaded: add f4 .25 .23 .25 .34, f8 1.35 .47 .49 .64, max f4 .54 .39 .32 .52,
affine f4 .73 .72 .96 1.37, f8 2.79 1.39 1.69 2.49, segmented f8 3.13 1.17 1.32 1.37, argmax 3.69 1.21 1.22 1.49, logaddexp f4
4.44 2.34 1.25 1.46, f8 34 9.4 5.6 5.3."""
CLAIMED = 2
"""Groups of runs before their prefixes are written, the nearest cache fetches the lines for them. ns an item without this and
with it, one thread, Xeon, loaded: float32 2^14 items .31 .29, 2^16 .24 .22, 2^18 .29 .24, 2^21 .45 .38, float64 .61 .45, .51 .34,
.71 .59, 1.17 1.07. In a prototype in C one and four groups were as good."""
AHEAD = 16
"""Groups of runs before they are summed, they are fetched, where nothing is scanned and the array is large. Of what `np.max` in
threads reads, without and with it, 256 MiB of float32, 16 Xeon cores: two threads .63 .85, with four groups .80; 16 threads .69
.77.

Of columns of one component that are reduced, the 16 rows behind those that are summed are fetched. Of the same, 16 threads:
sums of 8192 columns of float32 .95 1.19, of 4096 of float64 1.01 1.39, the largest .76 1.01; one thread of an AMD takes .73 to
1.07 of the time."""
FETCHING = 8
"""So many threads at most fetch the next tile while they scan one; more have tiles of few columns that are half as large. Speed
beside a parallel copy with and without fetching, 256 MiB, 16 Xeon cores, 2, 8, 16 threads: sums of float32 .83 .89 .74, .76 .82
.87, in segments .86 .85 .78, .66 .78 .86; by 2 and 16: float64 1.09 .81, .97 .86, int32 1.23 1.06, 1.07 1.22; of 64 MiB float32
.86 .56, .60 .69, in segments .70 .73, .60 .76.

By whole tiles and by halves, 16 threads, 64 MiB of 3 and 5 columns of float32 .74 .91, .80 .89, 128 MiB of 3 of float64 .93 1.06,
256 MiB of 3 and 17 of float32 .88 .85, .85 .85. By two threads on an AMD halves take 1.05 of the time."""
SHORT = 1024
"""Rows of fewer items are scanned side by side, each in a lane of its own, if nothing below says otherwise. ns an item, float32,
so and one by one: rows of 16 .44 and 13, of 100 .77 and 2.4, of 1000 .59 and .74, of 2000 .62 and .59."""
SHORT_DENSE, SHORT_CALLED = 4096, 512
"""The same for many rows of one component that are swept where they lie, and where a map or a finish is called for lines. ns an
item one by one and side by side, one thread, AMD, loaded, 2^18 and 2^23 items: float32, rows of 1030 .64 .46, .87 .66, 2000 .50
.42, .85 .62, 4000 .46 .42, .59 .54, 8000 .44 .38, .46 .54, float64 .80 .59, 1.43 .90, .70 .55, 1.10 .69, .67 .53, .85 .81, .65
.51, .66 .82; 2^17 and 2^22 items, rows of 3000: sums .47 .39, .36 .21. Others lose: every other item .88 1.20, .86 1.03, float16
.68 .96, .45 .60, recurrences of large arrays 1.46 2.09. A map, rows of 300 and 1000, 2^22 items: float32 1.39 1.96, .67 1.90,
float64 3.8 3.0, 1.64 2.92, a finish 1.58 2.33, .92 2.31, 2.25 3.09, 1.55 2.98; a map, rows of 520, scan and reduction: float32
.87 2.0, .58 1.1, float64 2.4 3.1, .71 1.6, int32 .44 2.0, .28 1.1. In segments a map of float32 loses, rows of 520: 2.8 2.0."""
SHORT_STRAIGHT = 32
"""Rows of fewer items also where they could be scanned straight through, or of less than a line of the cache; past the cache the
line alone decides. ns an item, so and straight: int32, rows of 16 .35 and .86, of 50 .95 and .28; uint8 33 .17 1.12, 48 .13 .96,
63 .42 .91, 65 .17 .15; in 32 MiB int32 8 .68 .94, 16 .53 .32, 24 .60 .36, int64 6 1.35 1.22, 8 1.40 .77, 16 1.01 .50, 31 1.20
.47, int16 31 .34 .46, uint8 33 .20 1.22, 63 .28 .98, 65 .20 .09."""
FEW_ROWS = 32
"""Where fewer rows are neighbours in memory, and the items of each lie side by side, the rows of the longest dimension are
scanned side by side. ns an item so and by neighbours, AMD, loaded, from Fortran's order to C's along the first axis:
float32 (2, 3, 2028) .64 65, (6, 6, 6000) .43 22, (16, 7, 2321) .63 9, (9, 17, 2790) .34 1.3, (30, 4, 900) .62 4.6,
int64 .74 25, .47 8.8, .87 3.4, .52 2.1, .86 2.2."""
TWICE = 1.3
"""The cost of a row that is cut into tiles over its cost as a whole: a tile is summed before it is scanned. CPU time of two
threads over that of one, 2^20 items: float32 1.3 to 1.4, float64 1.6."""
NARROW_BYTES = 1 << 11
"""Strips of columns are made narrower for several threads down to so many bytes, rather than cut into tiles. Both take more
processor time than one thread does. Shorter stretches of memory cost a copy the same: ns of processor time an item, float32, 2^23
items, AMD, loaded, a copy by one thread, by two that halve the rows, by two that halve the columns: 100 columns .20 .23 .54, 1000
.29 .28 .42, 4096 .31 .29 .35. Time of two threads over that of one, plain, segmented, with a map: 1000 columns 1.2 1.3 1.2, 4096
1.4 1.1 1.3, and 100 columns, in tiles, which are summed before they are scanned, 1.5 1.7 1.1."""
CHAINED, CHAINED_ROWS, CHAINED_TICKETS = 3, 1 << 7, 16
"""From so many threads on tiles of columns wait for those above them, where each thread has NARROW_BYTES of a line, and a tile so
many rows; about so many tiles to a thread. Speed beside a parallel copy without this and with it, 16 Xeon cores, 16 threads, two
races: 3000 x 20,000 float32 1.28 1.55; 8192 x 8192 in segments .61 .80, .73 .81, without .85 .88, .88 .83; recurrences of 8192 x
4096 .73 .75, .74 .71; float64 .87 .86; by 8, 4, 2 threads 8192 x 8192 .95 1.00, 1.12 1.10, 1.26 1.23. Strips of half as many
bytes lose: 11,000 x 6000 1.03 .90, of a quarter 20,000 x 3000 .92 .50."""
PARALLEL_BYTES, PARALLEL = 1 << 22, 8
"""Less than this is scanned by the calling thread, whose cache may hold it: on a Xeon with 16 cores two threads took 384 us for
2 MiB of float32, which one scans in 217, four 333. From here on so many threads share so many bytes. Speed beside a copy, by two,
four and eight threads for that many bytes: float32, 4 MiB .79 1.03 1.20, 8 MiB 1.55 1.99 2.28, in segments 1.58 2.20 2.71, 1024 x
1024 along axis 0 1.01 1.26 1.24."""
PARALLEL_STRAIGHT, PARALLEL_MANY = 4, 8
"""One row that is scanned straight through must have so many times as many bytes, unless there are so many threads. Speed of two
threads beside one, AMD, loaded, 4, 8, 16, 32 MiB: sums of int64 .41 .53 .57 .83, of int32 .52 .66 .70, the largest int64 .46 .58
.79 .98; of float32 .96 .79 1.03. A call of 10^6 int64 .74 ms and .30, NumPy's .37. Of 8 threads for 4 MiB and 16 for more, 16
Xeon cores: int32 4, 8, 12 MiB 1.7 2.3 3.0, int64 4 and 8 1.9 2.3."""
STREAM_BYTES = 1 << 24
"""Results from this size on are written past the cache. Speed so beside the other way, one thread, float32, results of 8 and 16
MiB: AMD 1.04 and 1.29, along axis 0 1.02 and 1.31; Xeon 1.14 and 2.12, with two threads 1.86 and 1.90."""
STREAM_LINE = 1 << 9
"""Shorter lines, which are not one stretch of memory with the next ones, go through the cache. ns an item past it and through it,
float64, one thread, AMD, loaded, 64 MiB of lines of 128 bytes .58 .31, 264 .92 .36, 512 .32 .27, 800 .28 .35, 1024 .30 .34, 8000
.31 .32; where the first and the last 32 bytes of a line of the cache went apart, 264 4.7, 800 2.1, 2664 .76."""
COSTLY_FILLED = 0.75
"""Few columns are swept by vectors that begin with a line, of which they fill a part; of a costly operator from this part on.
CPU time so over that of one by one, logaddexp, AMD, loaded, 2, 3, 4, 6, 8 columns: f4 1.1 3.3 2.1 1.4 1.2, f8 3.8 2.4 1.8 1.2
1.1; f4 12 columns .86."""
STAGED_FROM, STAGED_BYTES, STAGED_LINE = 1 << 22, 1 << 15, 1 << 11
"""In arrays of so many bytes and more, stretches of so many bytes come near in one go, where a line is shorter than so many
bytes. CPU time of a copy over ours without this and with it, one thread, AMD, 2^23 items: float32 along columns of 33 .26 .38, 48
.33 .55, 64 .25 .48, 128 .41 .63, 256 .57 .65, 400 .59 .65, float64 48 .38 .58, 128 .51 .60, 256 .66 .60; float32 in rows of 33
.55 .45, 48 .40 .47, 64 .29 .51, 128 .25 .45, 256 .25 .44, 400 .32 .39, float64 64 .25 .55, 128 .30 .47, 400 .45 .45. Reductions
of columns of float32 33 .80 .61, 48 .44 .73, 64 .46 .77, 128 .59 .81, 256 .74 .83, of rows 64 .68 .69, 128 .52 .77, 256 .64 .72.
Stretches of 16 or 128 KiB are as fast. ns an item of large arrays without this and with it, 2^23 float32 in rows of 2 .84 .66, 3
.82 .73, 7 .64 .57, 8 .74 .47, 12 .76 .47, 24 .58 .45, 32 .62 .42, 40 .69 .47, with segments 12 1.05 .78; 2^22 float64 in rows of
3 1.35 1.14, 7 1.58 1.02, 12 1.51 .91, 16 .71 .79, 32 1.30 .82; of 2^20 float32, which stay in the cache, 12 .24 .31. Lines that
cannot be swept where they lie come near from any size on. Time without this over that with it, 2^22 items: rows of 100 reversed
f4 1.8, pairs of f8 1.9, of 1000 2.7, f2 in rows of 33, 100, 1000 1.6 1.5 2, recurrences of one coefficient in rows of 33, 100,
1000 1.3 1.25 1.6, in 33 and 100 columns 3 1.6, f2 in 17 and 100 columns 1.4 1.15. Columns that are reduced would lose: f2 .72.

While a strip of rows is swept, the second nearest cache fetches the next one. Time without this over with it, 32 MiB: float32
in rows of 33 1.07, 70 1.13, 100 1.16, float64 100 1.21, in order 1.24, float16 100 1.2, 500 1.33, every other one of 500 1.3. In
arrays of 2 MiB, which stay in a cache, float32 in rows of 100 take .42 so and .25 where they lie, in 4 MiB .51 and .85."""
STAGED_SEVERAL = 3 << 11
"""Lines of columns of several components that cannot be swept where they lie come near if they have fewer bytes. ns an item
without it and with it, one thread, Xeon, loaded: recurrences of one coefficient, 400 columns in cache, float16 .87 .57, float32
1.06 .77, 680 in cache 1.05 .77, 1.16 1.06, 680 of 2^23 items 1.30 .93, 1.62 1.05; whole float16 1.77 1.81, 1.32 1.31. Lines of 8
KB are as fast so, those of 16 KB slower (1.29 1.49), and those of one component lose: 750 columns, every other one, of 2^23
items, float16 .98 1.29, float32 1.79 2.00."""
STAGED_ROW = 1 << 14
"""Rows of so many bytes and more are swept where they lie, as far as they can be. Shorter ones, but not than STAGED_LINE, come
near where results go past the cache. ns an item without this and with it, one thread, AMD with AVX-512, loaded, 32 MiB:
float32 in rows of 750 .64 .46, 1008 .67 .46, 2000 in order .57 .44, 4080 .56 .48, float64 300 1.24 .89, 256 1.24 .92; float16 of
2000 in order 1.00 .41. In 4 MiB, where rows stay in a cache: float32 1008 .29 .57, 4080 .26 .58.

Rows that lie a multiple of CLASH apart come near with gaps, from STAGED_FROM on, where 16 are walked at once: float32 in rows of
1024 in 4 MiB 1.11 .52, 2048 1.09 .52, in 32 MiB 512 .68 .53, 1024 .72 .59. Eight rows of float64 lose: 1024 .71 .90, .86 1.00."""
RESTARTED_ROW = 48
"""Rows of so many items in segments come near in large arrays where their scan is exclusive, and columns always. ns an item
without this and with it, one thread, AMD, 2^23 float32 in rows of 16 1.00 1.09, 100 1.45 .95, 1000 1.47 .80, in 100 columns 1.60
.79; of 2^18, which stay in the cache, in rows of 16 .46 .76, 100 .58 .62, 1000 .61 .65, in 100 columns .95 .54."""
SHORT_LINE = 16
"""Lines of fewer items are moved between an array and scratch memory item by item, each of all lines, not line by line. ns an
item of every other column, which were scanned one by one or in panels before, and so, AMD, 2^17 items, scan and reduction:
float32 3 .76 .67, .56 .34, 8 1.60 .43, .98 .22, float64 4 3.06 .61, 1.93 .29, 8 1.55 .42, .97 .26, complex64 4 5.1 .59, 2.8
.30, int32 4 .77 .62, .58 .29, 8 .44 .30, .22 .10, int64 4 .65 .62, .45 .30, int8 3 .54 .76, 7 .57 .39, 14 of float64 7.9 .80,
11 of complex64 2.4 1.0."""
BACKWARD_LINE = 8
"""The same for lines that are brought and whose items lie the other way: a line is vector code. ns an item of reversed columns
item by item and line by line, AMD with AVX2, 2^15 items: float64 8 .95 .78, 12 2.20 1.30, 15 1.69 1.24, float32 8 .67 .57, 12 .67
.59, 15 .70 .58, int16 8 .58 .54; in 32 MiB float64 12 2.58 1.64, 15 2.14 1.65. Handed out so, reversed rows of 12 float64 took
1.50 1.89."""
EQUAL_LINE = 24
"""Lines of 8 to so many bytes that are one byte each, as the flags of columns that share their segments, are set by words. ns an
item of sums in segments without this and with it, one thread, AMD with AVX-512, loaded, 2^20 items, columns: float32 8 .44 .26,
12 .40 .24, 20 .32 .26, float64 8 .81 .52, 12 .78 .62, 20 .62 .64. Longer ones gain nothing: float32 33 .26 .27."""
BRIEF = 4
"""Items of the longest rows that go one by one, in arrays that have code of their own, where each row lies behind the last one.
Speed of a copy side by side and so, one thread, AMD with AVX-512, 2^18 items, rows of 2, 3, 4: float32 .16 .87, .20 .98, .27 .75,
float64 .22 .88, .24 .89, .30 .88, int32 .17 .89, .18 1.1, .24 .97, truths of 2 .05 .96. ns an item side by side and so, Xeon,
loaded: float16 .60 .10, .63 .14, .61 .12, bfloat16 1.1 .12, .68 .17, .57 .20, recurrences of float32 1.01 .44, 1.86 .45, .90 .46,
of float16 1.66 .46, 1.84 .63, .95 .64."""
COUPLED = 32
"""Two columns of float32 of so many items are summed as one row of complex numbers. Time as columns over this, one thread, AMD
with AVX-512, loaded: 1000, 4000, 30,000, 2^17, 2^21 and 2^23 items 1.27 1.66 2.6 2.8 1.5 1.6, reductions of the last three
3.1 1.6 1.3, many such pairs of 20, 50, 100, 300 and 1000 items .9 1.9 1.8 2.4 4.0, in segments of 3000, 10^5 and 2^21 14 2.8 2.0.
Two columns of float64 lose: 2^17 and 2^21 items .6 .53.
"""
TOGETHER = 256
"""Items that lie apart and are converted come together so many at a time. ns an item one by one and so, AMD with AVX-512, 2^18
items, every other one: float16 1.33 .49, into every other one .53 .50, in rows of 1000 1.41 .57, computed in float64 2.36 .73;
float32 computed in float64 .74 .75."""
TICKET_BYTES = 1 << 16
"""Short rows are taken in batches of about this size."""
FOLDED_ROWS, FOLDED_BYTES, FOLDED_STRIP, FOLDED_CALLED = 8, 1 << 13, 1 << 19, 1 << 12
"""Few columns, of at most so many bytes with their items, are folded where so many of them lie one behind the other. ns an item
one by one, or item by item, and folded in strips of FOLDED_STRIP, one thread, AMD, 2^17 items, columns x items: float32 2x3 48
.85, 3x7 4.8 .60, 3x64 1.8 .31, 5x64 1.05 .32, 3x300 .96 .61, 8x300 .37 .45, 1000x2 .70 .66, 16x16 .60 .30, 32x7 1.06 .51; int32
2x16 3.8 .28, 5x300 .78 .49; int8 3x7 4.7 .25, 3x300 1.4 .28, 64x64 .10 .44; 2x300 float64 2.3 .79.
With a map 3x64 5.3 .49, with a
finish 8x3 107 .53, in segments 2x16 13 .31, in order 14x20 1.05 .30. Strips of 32 and 64 KiB: float32 3x64 .68 .48. Large arrays
transposed where they lie and by way of a stretch, a copy .20, 2^23 items: float32 3x64 .66 .49, 2x3 .81 .69, rows of 7 through a
map .78 .70, float64 5x7 1.49 1.09 (2^22, a copy .42).

Rows of at most FOLDED_CALLED bytes and fewer than SHORT_CALLED items are folded too where a map or a finish is called for lines
of them. ns an item otherwise and so, in strips of 128 KiB, of rows of 2, 3, 7, 12, 16, 20: map, float32 9.2 .58, 6.2 .63, 2.2
.52, 1.1 .37, .51 .40, 1.3 .38; finish, float16 2 11 .55, 7 2.8 .56. A line has an item of each row, so that strips of longer
rows are wide. ns an item in strips of 128 and of 512 KiB, AMD with AVX-512, 32 MiB: map, float32 in rows of 100 .81 .85, 200 .98
.81, 300 1.08 .81, 500 1.33 .88, float64 100 1.61 1.63, 200 1.99 1.61, 300 2.22 1.64; finish, float32 500 1.44 .91; a map in
segments of float32 300 1.52 .98; in 1 MiB, map, float32 250 .65 .49, 500 .70 .63. In rows of 2 to 4 KiB otherwise, and so: map,
float64 500 2.84 1.77, finish 2.40 1.81, float64 300 2.41 1.64, bfloat16 500 .85 .55, uint8 500 .40 .24; in 1 MiB, map, float64
500 1.17 1.14, 250 1.21 .93, int16 500 .39 .30. Rows of 1000 lose: 1.19 1.02, of int32 .31 1.03."""
NEAR_BYTES = 1 << 17
"""Columns that share cache lines are scanned one by one, in chunks that together fit a near cache."""
OWN_CODE_BYTES = 1 << 18
"""From so many bytes on, arrays have code of their own where other arrays share some, which is compiled for each operator: the
last rows of columns, 4 to 15, and columns in order that lie side by side. ns an item without it and with it, one thread, AMD.

Last rows, which go through panels without it, 2^18 items, by rows, scan and reduction: float32 4 .15 .11, .10 .09, 5 .20 .12, .16
.10, 8 .18 .10, .15 .08, 15 .15 .11, .12 .07, float64 5 .37 .22, .32 .19, 8 .38 .26, .30 .15, complex64 4 .55 .37, .49 .41, 5 1.0
.52, .96 .52, 8 .90 .34, .83 .36, 15 .88 .40, .82 .34, 30 .65 .37, .56 .30, complex128 8 1.25 1.17, 1.05 1.17; a loop by numba:
float32 .10, float64 and complex64 .19.

In order, where code for any strides is no vector code, 256 x 1000, scan, reduction, recurrence, segments: float32 .31 .08, .24
.04, .69 .10, .48 .08, float64 .32 .16, .25 .08, .70 .18, .49 .17, complex64 .65 .15, .58 .08, 1.22 .22, .74 .17; 200 x 20000:
float32 .72 .32, .45 .09, .97 .50, float64 .96 .60, .62 .33, 1.38 .83.

The largest and the smallest of floats in order, one row of 2^18, scan and reduction, without code of their own, which takes the
kernel along, and with it: float32 max 3.1 .28, 3.2 .06, min .82 .26, .82 .05, float64 3.1 .51, 3.3 .11; a loop by numba .55."""
ABREAST_LANES = 16
"""Bytes of the vectors of few columns that fit into one; at least four lanes. Others have vectors of COSTLY_LANES. A vector
begins with each line, so that wider ones overlap more, and most of their stores cross lines of the cache. ns an item of such
vectors and of narrow ones, one thread, AMD with AVX-512, 512 KiB: float32 3 columns .74 .42, 4 .52 .32, float64 2 1.04 .71, 4
.61 .49, int16 3 .72 .34, 7 .32 .19, uint8 3 .82 .35, 7 .31 .15, 16 .13 .08, reductions of 3 columns .24 .14, .20 .09; in 32 MiB
float32 3 .77 .50, int16 3 .70 .47, uint8 16 .14 .10. Speed of a copy by two columns one by one and so, 512 KiB and 32 MiB:
float32 .17 .24, .21 .48, int32 .12 .19, .24 .51, int16 .07 .10, .16 .28, uint8 .05 .06, .11 .15."""
ABREAST_LINE, ABREAST_CHUNK = 1 << 11, 1 << 14
"""Columns whose lines have fewer bytes are swept abreast, a chunk of so many bytes at a time. Time otherwise over time so, one
thread, Xeon with AVX-512, loaded, sums of float32 of 2^17 items, 20, 33, 64 and 256 columns: 2.5 1.5 1.9 1.5; of 8,000,000 items,
16, 33, 64, 256: 1.4 2.0 1.5 1.4. Lines of more bytes lost in large arrays with earlier code."""
FLAGGED_BYTES = 12
"""Few columns in segments are scanned together from so many bytes of a line on, as each has its copy of the flags. ns an item
one by one, or item by item, and so, one thread, AMD, 2^18 items, by columns: float32 3 .70 .97, 4 .76 .78, 5 .78 .70, 8 .90
.51, 16 1.13 .30, float64 2 1.56 1.46, 4 1.56 .88, 8 3.4 .63, int32 4 .76 .76, 8 .48 .50, 16 .29 .29, int64 2 1.49 1.43, 4 .86
.87, 8 .50 .59, int8 3 .53 1.02, 7 .57 .62, 12 .63 .41."""
WALKED_BYTES = 28
"""Columns that share cache lines and are not scanned together, as they are reversed or have gaps, go item by item from so many
bytes of a line on, where every order gives the same bits. CPU time of one by one over this, AMD: int32 3, 7, 15 columns .55 1.4
2.9, int64 3 and 7 .8 1.7, int8 7, 15, 33 .7 1.3 3.7."""

STRIP_IN_ORDER = 64
"""Rows that a scan in order transposes at once."""
STRIP, STRIP_OF_ROWS = 4096, 16
"""Rows that a scan in order walks side by side: where neighbours are rows, so many that memory is read in long stretches, and
that their states stay in a near cache; where the axis itself runs along memory, so few that their cache lines do. Time of
1024 and 16384 over that of 4096, one thread, AMD, 2^20 items in 4096 and 20000 columns: int32 1.5 1.6 and 1.1 1.5, reductions
2.1 3.8 and 1.1 1.6, int64 1.3 1.3 and 1.1 .75, int8 1.5 1.4 and 1.2 .9. Time of 16 over 4096, float32 in order, 2^20 and 2^23
items, 1000 columns: 2.1 7, 4096 1.4 2, 64 1.3 2.4, float64 1000 4.6 5.5."""
