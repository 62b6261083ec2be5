"""The commands together, and their way in and out.

Each command is a typed function; tyro turns its arguments into options with help, and answers a
misspelt option with the nearest one. All other wrong input ends in one line on standard error. Both
exit with code 2.
"""

from __future__ import annotations

import functools
import io
import os
import sys
import warnings

import tyro

from gptlib.cli.account import account
from gptlib.cli.common import say
from gptlib.cli.doctor import doctor
from gptlib.cli.train import defaults, prepare, train
from gptlib.cli.write import chat, export, sample


def main(args: list[str] | None = None) -> None:
    """Run one command; the entry point of the `gptlib` script."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without UTF-8 still gets its text
    try:
        args = sys.argv[1:] if args is None else args
        app = tyro.extras.SubcommandApp()
        app.command(name="train")(functools.partial(train, **defaults(args)))
        for command in (prepare, sample, chat, export, account, doctor):
            app.command(command)
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: say(f"gptlib: {message}")
            app.cli(
                args=args, prog="gptlib", description="Train a GPT, let it write, talk with one."
            )
    except BrokenPipeError:  # the reader of our output has left, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (ValueError, TypeError, OSError, ArithmeticError, MemoryError, RuntimeError) as error:
        first_line = (str(error) or type(error).__name__).splitlines()[0]
        say(f"gptlib: {first_line}")
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        say("gptlib: stopped; nothing was saved")
        raise SystemExit(130) from None
