"""The development launcher."""
