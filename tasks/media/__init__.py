"""Long-running work: a folder of pictures is resized, with progress, cancel and resume."""
