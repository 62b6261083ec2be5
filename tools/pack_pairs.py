"""Write the counts of pairs that the panel of chapter "Guess the next letter" carries.

python tools/pack_pairs.py && oxfmt gptlib/panels/pair_counts.js
"""

import argparse
from pathlib import Path

from gptlib import ladder
from gptlib.panels import pairs


def script() -> str:
    """Return the script."""
    train, _ = ladder.texts()
    rows = "".join(f'  "{row}",\n' for row in pairs.pack(train))
    return (
        "// Pairs of bytes in the plays, counted by tools/pack_pairs.py: the bytes that occur,\n"
        "// the first one, then for each byte how often each came after it (nothing: never).\n\n"
        f"const COUNTED = [\n{rows}];\n\nexport {{ COUNTED }};\n"
    )


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()  # --help writes nothing
    Path(pairs.STORED).write_text(script(), encoding="utf-8")
