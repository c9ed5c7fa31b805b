"""`python -m kexpfam` is the command `kexpfam`."""

from kexpfam.cli import main

if __name__ == "__main__":
    main()
