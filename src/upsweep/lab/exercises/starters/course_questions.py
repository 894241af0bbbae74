"""Exercise 17: what the sources ask, and what they get wrong (PMPP, CS380 lecture 24, ECE569 module 37, Hwu 4.6, the notes).

Answer each, then let the marks say what a run says. For 16 items where no number is given.

Marks: a share for each right answer, and the reason for each wrong one.
"""

# The slide says that a sequential scan makes n additions. How many does its code make?
SEQUENTIAL_ADDITIONS = ...

# Figure 11.6: which words become whole prefixes in the first level of the reverse tree, and in the second? Two lists.
FIRST_LEVEL = ...
SECOND_LEVEL = ...

# Hwu: the index of thread 0 in the reverse tree when the stride is 4.
FIRST_INDEX = ...

# Kogge-Stone: the most inputs that a word holds after two levels.
INPUTS_AFTER_2_LEVELS = ...

# The vector reduction, t and t + half: does it need an operator that commutes? True or False.
ORDER_LOST = ...

# CS380's cycles of the padded tree of 128 leaves, by the rule that gives all of its other entries.
CYCLES_128_PADDED = ...

# "20 times for 10^6 elements": the ratio of the additions, to two decimals.
TWENTY_TIMES = ...

# Snir: by how much do Brent-Kung's operations plus depth exceed 2n - 2?
SNIR = ...

# Figure 11.9: how many launches does the hierarchical scan take?
LAUNCHES = ...

# About how many words does it move through global memory for each item?
GLOBAL_WORDS = ...

# Kogge-Stone's operations over Brent-Kung's for 1024 items, to one decimal.
TIMES_BRENT_KUNG = ...
