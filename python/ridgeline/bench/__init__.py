"""Times and checks the PyTorch front end: ``python -m ridgeline.bench --help`` (docs/pytorch.md)."""
