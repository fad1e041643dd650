"""The parts of `manage.py deadletters`."""
