"""The command `hive-bitmap`, or `python -m hive_bitmap`: check packages, run the CLI."""

from __future__ import annotations

import sys

from hive_bitmap.errors import MissingPackage
from hive_bitmap.spark.packages import PROGRAM, require


def main() -> int:
    """Run the command line and return the exit status."""
    try:
        require(PROGRAM)
    except MissingPackage as e:
        print(f"hive-bitmap: {e}", file=sys.stderr)  # noqa: T201 - the CLI prints errors in the same way
        return 1
    from hive_bitmap import cli

    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
