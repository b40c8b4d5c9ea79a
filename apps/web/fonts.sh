#!/usr/bin/env bash
# Cuts egui's fonts down to the scripts and signs that the program's texts use. A browser draws every other sign itself.
# Needs pyftsubset (`pip install fonttools`). Run it again when egui's fonts change, or when the test
# `the_fonts_of_the_page_have_every_sign_of_the_texts` fails.
set -euo pipefail
cd "$(dirname "$0")/../.."
fonts=$(dirname "$(cargo metadata --format-version 1 | jq -r '.packages[] | select(.name == "epaint_default_fonts").manifest_path')")/fonts
out=crates/regard-ui/assets/page
# Latin, Greek, Cyrillic, punctuation, superscripts, currency, letters of mathematics, arrows, mathematics, technical signs, shapes.
signs="U+0020-017F,U+0370-045F,U+2010-2044,U+2070-209F,U+20AC,U+2102-214A,U+2190-21FF,U+2200-22FF,U+2308-230B,U+2318,U+2581-2588,U+25A0-25FF,U+FEFF"
for name in Ubuntu-Light Hack-Regular; do
    pyftsubset "$fonts/$name.ttf" --unicodes="$signs" --no-hinting --name-IDs='*' --output-file="$out/$name.ttf"
done
# The pictures that the page exports. Their text is not shaped.
pyftsubset crates/regard-figure/fonts/DejaVuSans.ttf --unicodes="$signs" --no-hinting --layout-features= --name-IDs='*' \
    --output-file=crates/regard-figure/fonts/page/DejaVuSans.ttf
cp "$fonts/egui-icons.ttf" "$out/"
cp "$fonts/UFL.txt" "$fonts/Hack-Regular.txt" "$fonts/egui-icons.txt" "$out/"
ls -l "$out"
