"""``python -m undertow``: the command line where its script is not on the path."""

from undertow.cli import main

if __name__ == "__main__":
    main()
