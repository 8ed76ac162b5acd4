"""`python -m hive_bitmap` is `hive-bitmap`."""

import sys

from hive_bitmap.cli import main

if __name__ == "__main__":
    sys.exit(main())
