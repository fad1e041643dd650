#!/usr/bin/env python
"""Django's command line, with the kit on the path and settings problems shown without a traceback."""

import os
import sys
from pathlib import Path


def main() -> None:
    root = Path(__file__).resolve().parent
    sys.path[:0] = [str(root / "platform"), str(root)]
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    from django.core.management import execute_from_command_line

    from taskyard.errors import ConfigurationError

    try:
        execute_from_command_line(sys.argv)
    except ConfigurationError as error:
        sys.exit(f"taskyard: {error}")


if __name__ == "__main__":
    main()
