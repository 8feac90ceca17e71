#!/usr/bin/env bash
# LibreOffice 7.4.7 (taken from the system) and ssf, the formatter of SheetJS, show a loss as a gain: with the usual cell format for Indian
# grouping, which has conditions for large numbers and a last section for all others, -2500 has no minus sign. The last section alone
# shows it. Whoever reads a column of such amounts needs the stored value.
# Seen on 2026-11-29 with exceljs 4.4.0 and ssf 0.11.2:
#   -2500 in the last of three sections: LibreOffice 2,500, ssf 2,500; in that section alone: LibreOffice -2,500, ssf -2,500
set -euo pipefail
for program in soffice npm node; do
  command -v $program >/dev/null || { echo "skipped: $program is not installed"; exit 0; }
done
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
cd "$temp"
soffice --version
npm init -y >/dev/null
npm install --silent --no-fund --no-audit exceljs@4.4.0 ssf@0.11.2 >/dev/null 2>&1
cat >make.mjs <<'JS'
import Excel from "exceljs";
import SSF from "ssf";
const formats = [String.raw`[>=10000000]##\,##\,##\,##0;[>=100000]##\,##\,##0;##,##0`, "##,##0"];
const book = new Excel.Workbook(), sheet = book.addWorksheet("A");
for (const [i, format] of formats.entries()) {
  const cell = sheet.getCell(1, i + 1);
  cell.value = -2500;
  cell.numFmt = format;
}
await book.xlsx.writeFile("a.xlsx");
console.log(formats.map((format) => SSF.format(format, -2500)).join(";"));
JS
ssf=$(node make.mjs)
soffice --headless "-env:UserInstallation=file://$temp/office" --convert-to "csv:Text - txt - csv (StarCalc):59,34,76" a.xlsx >/dev/null 2>&1
office=$(head -n 1 a.csv)
seen="-2500 in the last of three sections: LibreOffice ${office%%;*}, ssf ${ssf%%;*}; in that section alone: LibreOffice ${office##*;}, ssf ${ssf##*;}"
echo "$seen"
[[ $seen == "-2500 in the last of three sections: LibreOffice 2,500, ssf 2,500; in that section alone: LibreOffice -2,500, ssf -2,500" ]]
