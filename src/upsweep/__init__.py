"""upsweep: parallel prefix scans with the same bits on every machine, at the speed of a copy."""
