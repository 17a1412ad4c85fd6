"""Ridgeline's training operators from Python: ``import ridgeline.torch``."""

__version__ = "0.1.0"
