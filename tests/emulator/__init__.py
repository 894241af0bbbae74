"""A GPU for tests on machines without one: the PTX of the engine's own kernels, as machine code of this processor.

`ptx.py` translates a kernel, `arithmetic.py` its instructions, `warps.py` runs its threads, and `device.py` stands in for the
driver. Threads take turns in a random order, and a block's shared memory begins as noise. Bits are those of a GPU; speed is not,
and what a fence orders is ordered here without it.
"""
