"""`python -m nipde.cli` is `nipde`."""

from nipde.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
