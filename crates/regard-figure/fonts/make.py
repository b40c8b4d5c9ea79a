"""Makes the fonts of the window and of figures: `make.py IBMPlexSans-Regular.ttf` (version 3.201), with fontTools installed.

DejaVuSans.ttf: all of DejaVu Sans 2.37 but its hints and the tables that neither join letters nor place accents:
    pyftsubset DejaVuSans.ttf --unicodes='*' --no-hinting --name-IDs='*' --layout-scripts='DFLT,arab,hebr,nko ,cyrl,latn,grek' \
        --layout-features='init,medi,fina,isol,rlig,liga,ccmp,mark,mkmk,calt,curs,locl'

regard-sans.ttf: the Latin, Greek and Cyrillic letters and the signs of IBM Plex Sans. Its "I" has serifs and its figures have one
width. The licence asks for another name. Lines are as high as egui's font had them.
symbols.ttf: signs of the texts that Plex lacks, from DejaVu Sans. Add a sign to SYMBOLS where the test
`the_fonts_have_every_sign_of_the_texts` names it.
"""

import sys
from pathlib import Path

from fontTools import subset
from fontTools.ttLib import TTFont

SIGNS = [(0x20, 0x17F), (0x370, 0x45F), (0x2010, 0x2044), (0x2070, 0x209F), (0x20AC, 0x20AC), (0x2102, 0x214A), (0x2190, 0x22FF),
         (0x25A0, 0x25FF)]
SYMBOLS = ("ʲᵀᵈᵉᵏᵐᵗᵢᵣᵤᵥ‖′⁰ⁱ⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿ₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₐₑₒₓₔₕₖₗₘₙₚₛₜⱼℝ←↑→↓↔↦⇥⇧∀∂∃∇∈∉∋∌∏∑−∝∥≈≠≤≥⊙⊤⊥⌈⌉⌘⏎␣▁■▲▶▼◀○●◧✓✗×·√∞∘⟨⟩…�")
HERE = Path(__file__).parent


def cut(source, signs):
    options = subset.Options(hinting=False, layout_features=[], name_IDs=[0, 13, 14])
    font = subset.load_font(source, options)
    subsetter = subset.Subsetter(options)
    subsetter.populate(unicodes=signs)
    subsetter.subset(font)
    return font


def name(font, family):
    for key, text in [(1, family), (2, "Regular"), (4, family), (6, family.replace(" ", ""))]:
        font["name"].setName(text, key, 3, 1, 0x409)


sans = cut(sys.argv[1], [sign for first, last in SIGNS for sign in range(first, last + 1)])
name(sans, "Regard Sans")
for table, above, below in [("hhea", "ascent", "descent"), ("OS/2", "sTypoAscender", "sTypoDescender")]:
    setattr(sans[table], above, 940)
    setattr(sans[table], below, -210)
sans.save(HERE / "regard-sans.ttf")
there = set(sans.getBestCmap())
symbols = cut(HERE / "DejaVuSans.ttf", [ord(sign) for sign in SYMBOLS if ord(sign) not in there])
name(symbols, "Regard Symbols")
symbols.save(HERE / "symbols.ttf")
