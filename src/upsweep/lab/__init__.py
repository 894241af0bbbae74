"""The lab: run a kernel on values that remember, draw it, count it, and find what is wrong with it."""
