"""Single operators with random attributes, shapes, types and versions against other implementations."""
