"""`hive-bitmap`, which is `python -m hive_bitmap` too: the command line, once it is sure that it can be imported."""

from __future__ import annotations

import sys

from hive_bitmap.errors import MissingPackage
from hive_bitmap.packages import PROGRAM, require


def main() -> int:
    """Run the program's own command line; returns the exit status."""
    try:
        require(PROGRAM)
    except MissingPackage as e:
        print(f"hive-bitmap: {e}", file=sys.stderr)  # noqa: T201 - the one line that an error is told in
        return 1
    from hive_bitmap import cli

    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
