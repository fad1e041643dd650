"""The diagnosis: connect to everything, say what is right, and what to do about the rest."""
