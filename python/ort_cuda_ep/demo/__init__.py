"""Real applications on the provider."""
