"""Forebay for Python: see `forebay.share`."""
