"""Fire and forget: a welcome mail, tried three times, then dropped and counted."""
