"""Run the command line as `python -m gptlib`, which is what torchrun starts too."""

from gptlib.cli import main

if __name__ == "__main__":
    main()
