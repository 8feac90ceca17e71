#!/usr/bin/env bash
# pdfTeX 1.40.24 of Debian 12 (texlive-latex-base, without cm-super and lm-fonts) embeds bitmaps for \usepackage[T1]{fontenc}, with a warning
# in its log only, and without a table of Unicode. The text of the page loses ff, fi, fl, ffi, the quotes and the Turkish dotless i, and has
# other letters for ß and many Polish and Czech ones, so that a search for "office" finds nothing.
# Seen on 2026-11-29 with poppler 22.12.0:
#   The oce is in the Straÿe, ±wierk, oynad.
set -euo pipefail
for program in pdflatex pdftotext; do
  command -v $program >/dev/null || { echo "skipped: $program is not installed"; exit 0; }
done
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
cd "$temp"
if kpsewhich sfrm1000.pfb; then echo "cm-super is installed: this is about machines without it" && exit 1; fi
pdflatex --version | head -n 1
cat >page.tex <<'TEX'
\documentclass{article}
\usepackage[T1]{fontenc}
\begin{document}
The office is in the Straße, świerk, oynadı.
\end{document}
TEX
pdflatex -interaction=batchmode page.tex >/dev/null
seen=$(pdftotext page.pdf - | head -n 1 | tr -d '\000-\011\013-\037')
echo "$seen"
[[ $seen == "The oce is in the Straÿe, ±wierk, oynad." ]]
