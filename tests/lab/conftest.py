"""The fixture that simulates a GPU, as a user's own tests would have it."""

from upsweep.lab.simulate import simulated_cuda

__all__ = ["simulated_cuda"]
