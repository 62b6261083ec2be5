"""Write the lists of merges that the panel of chapter "Text becomes tokens" carries.

python tools/pack_merges.py && oxfmt gptlib/panels/merge_lists.js
"""

import argparse
from pathlib import Path

from gptlib import byte_pairs, corpus
from gptlib.panels import merges

OF_GPT2 = 20_000  # of 50,000; all of them would weigh more than the rest of their page
OF_SHAKESPEARE = 1_000


def script() -> str:
    """Return the script."""
    text = corpus.shakespeare()
    learned = byte_pairs.train(text[: int(0.9 * len(text))], OF_SHAKESPEARE)
    lists = {"gpt2": list(byte_pairs.gpt2()[0][:OF_GPT2]), "shakespeare": learned}
    rows = "".join(f'  {name}:\n    "{merges.pack(each)}",\n' for name, each in lists.items())
    return (
        "// Merges, the pair of ids that each one joins, as tools/pack_merges.py wrote them.\n\n"
        f"const LISTS = {{\n{rows}}};\n\nexport {{ LISTS }};\n"
    )


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()  # --help writes nothing
    Path(merges.STORED).write_text(script(), encoding="utf-8")
