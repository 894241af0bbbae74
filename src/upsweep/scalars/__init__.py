"""Numbers in a Python function as NumPy 2 computes with its scalars: a Python number beside one takes its dtype (NEP 50).

`rules.py` asks NumPy what dtype an operation has, for all engines. `types.py` has the types that such scalars are to a compiler
of numba's family, and `compiled.py` makes a function over for one. `operations.py` and `functions.py` have the code of what a
function does and calls, `integers.py` that of whole numbers, and `either.py` that of values which are numbers of Python's on one
path.
"""
