"""Matplotlib figures of results. Each function takes a result and returns a figure, no files."""
