#!/usr/bin/env bash
# Chromium 156 (taken from the system) prints a soft hyphen at which it breaks a line as U+2010, and leaves those at which it does not in
# the text. poppler 22.12's pdftotext joins words at a hyphen that ends a line, but does not take U+2010 for one. So it tears the word
# that was hyphenated, and joins the compound whose hyphen the author wrote. PDFium marks the same hyphens.
# Seen on 2026-11-29:
#   Geschwindigkeits<U+00AD><U+2010> / begrenzung is wellknown, und / ver<U+00AD>lassen
set -euo pipefail
for program in chromium pdftotext; do
  command -v $program >/dev/null || { echo "skipped: $program is not installed"; exit 0; }
done
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
cd "$temp"
chromium --version
pdftotext -v 2>&1 | head -n 1
cat >page.html <<'HTML'
<!DOCTYPE html><html lang="de"><meta charset="utf-8"><p style="width: 7em; font: 16px 'DejaVu Sans'">Geschwindigkeits&shy;begrenzung is well-known, und ver&shy;lassen</p></html>
HTML
chromium --headless --no-sandbox --disable-gpu --no-pdf-header-footer --user-data-dir="$temp/profile" --print-to-pdf="$temp/page.pdf" page.html 2>/dev/null
seen=$(pdftotext page.pdf - | tr -d '\f' | sed -e 's/\xc2\xad/<U+00AD>/g' -e 's/\xe2\x80\x90/<U+2010>/g' | grep .)
echo "$seen"
[[ $seen == *"Geschwindigkeits<U+00AD><U+2010>"$'\n'"begrenzung"* && $seen == *wellknown* && $seen == *"ver<U+00AD>lassen"* ]]
