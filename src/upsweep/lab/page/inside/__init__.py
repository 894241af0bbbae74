"""Stand-ins for the rest of upsweep and for NumPy, where the lab runs inside a page (see `page/bundle.py`)."""
