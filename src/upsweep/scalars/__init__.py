"""Numbers in a Python function as NumPy 2 computes with its scalars: a Python number beside one takes its dtype (NEP 50).

`rules.py` asks NumPy what dtype an operation has, for all engines. `typed.py` gives a compiler of numba's family such scalars,
`functions.py` makes a Python function over so that all it calls takes them.
"""
