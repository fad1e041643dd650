"""What the platform tells about itself."""
