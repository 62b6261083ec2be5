"""The font of the formulas: STIX Two Math, cut to what they need and mended for Chromium.

MathML needs a font with a table of mathematical measures, and many machines have none.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

from fontTools import subset
from fontTools.ttLib import TTFont
from sphinx.errors import ExtensionError

# What is kept: Latin and Greek, upright, italic and bold; accents, arrows, operators, brackets.
KEPT = (
    *((0x20, 0x7E), (0xA0, 0xFF), (0x2C6, 0x2DC), (0x300, 0x338), (0x391, 0x3F5)),
    *((0x2010, 0x205F), (0x2102, 0x2135), (0x2190, 0x22FF), (0x2308, 0x230B), (0x23B4, 0x23E1)),
    *((0x27E8, 0x27EF), (0x1D400, 0x1D467), (0x1D6A4, 0x1D71B), (0x1D7CE, 0x1D7D7)),
)
PRIMES = {0x2032: "minute.ssty", 0x2033: "second.ssty"}
LICENCE = (0, 7, 13, 14)  # the font's own records: its owners and the Open Font License
OPTIONS = subset.Options(
    flavor="woff", hinting=False, layout_features=["dtls", "flac"], name_IDs=[*range(7), *LICENCE]
)
ROOT = "uni221A"
RULE = 40  # thickness of the line over a root, in thousandths; TeX's


def source() -> Path:
    """Return the font in the installed ziamath, without importing it."""
    spec = importlib.util.find_spec("ziamath")
    if spec is None or spec.origin is None:
        raise ExtensionError("the font is missing: ziamath is not installed; run `make book`")
    return Path(spec.origin).parent / "fonts" / "STIXTwoMath-Regular.ttf"


def narrow_roots(font: TTFont) -> None:
    """Make the tall root signs as wide as the low one.

    Chromium leaves room for the widest of them behind every root.
    """
    variants = font["MATH"].table.MathVariants
    made = variants.VertGlyphConstruction[variants.VertGlyphCoverage.glyphs.index(ROOT)]
    signs = [record.VariantGlyph for record in made.MathGlyphVariantRecord]
    width = font["hmtx"][ROOT][0]
    for name in {*signs, *(part.glyph for part in made.GlyphAssembly.PartRecords)}:
        glyph = font["glyf"][name]
        glyph.coordinates.scale((width / font["hmtx"][name][0], 1))
        glyph.recalcBounds(font["glyf"])
        font["hmtx"][name] = (width, glyph.xMin)


def thin_rule(font: TTFont) -> None:
    """Draw the line over a root thinner, and the gap below it as much wider.

    Chromium sets the sign half the line's thickness too low: with the font's own 68, that shows.
    """
    constants = font["MATH"].table.MathConstants
    thinner = constants.RadicalRuleThickness.Value - RULE
    constants.RadicalRuleThickness.Value = RULE
    constants.RadicalVerticalGap.Value += thinner
    constants.RadicalDisplayStyleVerticalGap.Value += thinner


def large_primes(font: TTFont) -> None:
    """Draw a prime as it looks when raised, which Chromium does not ask the font for."""
    for table in font["cmap"].tables:
        table.cmap.update({code: name for code, name in PRIMES.items() if code in table.cmap})


def write(path: Path) -> None:
    """Write the font: a tenth of its 1.5 MB."""
    font = subset.load_font(source(), OPTIONS)
    for mend in (narrow_roots, thin_rule, large_primes):
        mend(font)
    cut = subset.Subsetter(OPTIONS)
    cut.populate(unicodes=[code for first, last in KEPT for code in range(first, last + 1)])
    cut.subset(font)
    subset.save_font(font, path, OPTIONS)
