"""The development launcher behind `manage.py up`: start the parts, show one log, stop them in order."""
