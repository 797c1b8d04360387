"""Models that people serve, at small sizes, for `tools/export_models.py`."""
