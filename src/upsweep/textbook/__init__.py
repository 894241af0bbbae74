"""Each classic scan kernel once, in plain Python, to run on a GPU and to trace in the lab."""
