"""upsweep, as far as a page holds it."""
