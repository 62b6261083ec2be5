"""The command line: `gptlib train | prepare | sample | chat | export | account | doctor`.

Stands on top of everything; nothing imports it.
"""

from gptlib.cli.app import main

__all__ = ["main"]
