"""Kernels with mistakes, as the sources print them and as students write them. None of these is for use."""
