#!/usr/bin/env bash
# LibreOffice 7.4.7 (taken from the system) reads a table of HTML with a head of two rows and writes one with a head of one row: the second
# row goes to the body. The cell that covers both rows ends with the head in a browser, so that the labels of the second row stand one
# column further left, over other figures. From a document with two heading rows it writes both into the head.
# Seen on 2026-11-29 with Chromium 156:
#   before: Parcels below 2026; after: Parcels below Region
set -euo pipefail
for program in soffice chromium; do
  command -v $program >/dev/null || { echo "skipped: $program is not installed"; exit 0; }
done
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
cd "$temp"
soffice --version
chromium --version
printf '%s' '<!DOCTYPE html><html><body><table><thead><tr><th rowspan="2">Region</th><th colspan="2">2026</th></tr><tr><th>Parcels</th><th>Share</th></tr></thead>' \
  '<tbody><tr><td>North</td><td>10</td><td>11</td></tr></tbody></table></body></html>' >before.html
mkdir converted
soffice --headless "-env:UserInstallation=file://$temp/office" --infilter="HTML (StarWriter)" --convert-to "html:HTML (StarWriter)" --outdir converted before.html >/dev/null 2>&1
mv converted/before.html after.html
# below prints the head in the first row that stands above the cell "Parcels".
below() {
  cat "$1" - >shown.html <<'HTML'
<script>
const at = (c) => c.getBoundingClientRect().left;
const cells = [...document.querySelectorAll("th")], parcels = cells.find((c) => c.textContent.trim() === "Parcels");
document.title = "below " + cells.slice(0, 2).findLast((c) => at(c) <= at(parcels) + 1).textContent.trim();
</script>
HTML
  chromium --headless --no-sandbox --disable-gpu --user-data-dir="$temp/profile" --dump-dom shown.html 2>/dev/null | grep -o '<title>[^<]*' | sed 's/<title>//'
}
seen="before: Parcels $(below before.html); after: Parcels $(below after.html)"
echo "$seen"
[[ $seen == "before: Parcels below 2026; after: Parcels below Region" ]]
