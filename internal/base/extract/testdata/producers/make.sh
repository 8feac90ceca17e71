#!/usr/bin/env bash
# Makes the documents of the corpus with the programs of this machine and the pinned libraries of npm:
#   make.sh DIR
# The tests read those in made. They differ in each run, as in dates, so that texts and expectations are compared, not bytes.
# On Debian the programs and fonts are in libreoffice-writer-nogui, libreoffice-calc-nogui, libreoffice-impress-nogui, pandoc,
# texlive-latex-base, lmodern, groff, chromium, wkhtmltopdf, mutt, s-nail, git, python3, fonts-dejavu-core and fonts-droid-fallback.
# The documents of a missing program are left out with a line. Without npm or its registry the script ends with 75.
set -euo pipefail
mkdir -p "$1"
out=$(cd "$1" && pwd)
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
cp "$(dirname "$0")"/{package*.json,make.mjs,*.tsv} "$temp"
cd "$temp"
mkdir src
npm ci --no-audit --no-fund --silent || exit 75
node make.mjs src "$out"
export GIT_AUTHOR_DATE='1767225600 +0000' GIT_COMMITTER_DATE='1767225600 +0000'
export HOME=$temp TZ=UTC LC_ALL=C.UTF-8 SOURCE_DATE_EPOCH=1767225600 GIT_CONFIG_NOSYSTEM=1
: >"$out/versions.txt"

# with prints the version of a program, or that its documents are left out.
with() {
  if ! command -v "$1" >/dev/null; then
    echo "skipped: $1 is not installed"
    return 1
  fi
  { "$@" 2>/dev/null || true; } | grep -m 1 '[0-9]' >>"$out/versions.txt" || echo "$1" >>"$out/versions.txt"
}
# quiet runs a program, and prints what it said only if it fails.
quiet() { "$@" >log 2>&1 </dev/null || { echo "failed: $*" && cat log && exit 1; }; }

for name in $(node -p 'Object.entries(JSON.parse(fs.readFileSync("package.json")).dependencies).map((d) => d.join("@")).join(" ")'); do
  echo "$name" >>"$out/versions.txt"
done
if with chromium --version; then
  for name in chromium chromium-narrow; do
    quiet chromium --headless --no-sandbox --disable-gpu --no-pdf-header-footer --print-to-pdf="$out/$name.pdf" "src/$name.html"
  done
fi
if with wkhtmltopdf --version; then
  QT_QPA_PLATFORM=offscreen quiet wkhtmltopdf --quiet src/wkhtmltopdf.html "$out/wkhtmltopdf.pdf"
fi
if with soffice --version; then
  # convert SOURCE FILTER NAME
  convert() {
    quiet soffice --headless "-env:UserInstallation=file://$temp/office" ${4:+"--infilter=$4"} --convert-to "$2" --outdir converted "src/$1"
    mv converted/* "$out/$3" || echo "skipped: this LibreOffice does not write $3"
  }
  convert writer.html pdf:writer_web_pdf_Export writer.pdf
  convert writer1.html "docx:MS Word 2007 XML" writer.docx "HTML (StarWriter)"
  convert writer2.html "html:HTML (StarWriter)" writer.html "HTML (StarWriter)"
  convert impress.pptx pptx impress.pptx
  convert impress-pdf.pptx pdf impress.pdf
  convert calc.xlsx xlsx calc.xlsx
  convert calc-1904.xlsx xlsx calc-1904.xlsx
  convert calc-html.xlsx html calc.html
  convert calc-csv.xlsx "csv:Text - txt - csv (StarCalc):44,34,76" calc.csv
fi
if with pandoc --version; then
  i=
  for to in docx html pptx gfm-smart.md rst ipynb-smart.ipynb; do
    quiet pandoc --standalone --wrap=none "src/pandoc$i.html" --to "${to%.*}" --output "$out/pandoc.${to##*.}"
    i=$((${i:-0} + 1))
  done
fi
if with pdflatex --version; then
  for name in pdftex-ot1 pdftex-t1 pdftex-lm; do
    [[ $name != *-lm ]] || kpsewhich lmodern.sty >/dev/null || { echo "skipped: lmodern is not installed" && continue; }
    quiet pdflatex -interaction=nonstopmode -halt-on-error -output-directory="$temp" "src/$name.tex"
    mv "$name.pdf" "$out"
  done
fi
if with gropdf --version; then
  groff -k -ms -Tpdf src/groff-ms.roff >"$out/groff-ms.pdf"
  groff -k -man -Tpdf src/groff-man.roff >"$out/groff-man.pdf"
fi

# Mail programs send through a program that stores the message.
printf '#!/bin/sh\numask 022\ncat >"$MESSAGE"\n' >send
chmod +x send
if with python3 --version; then
  python3 - "$out/python.eml" <<'PY'
import sys
from email.message import EmailMessage
from email.policy import SMTP
m = EmailMessage(policy=SMTP)
m["From"], m["To"] = "Jörg <joerg@example.org>", "ann@example.org"
m["Subject"] = open("src/python.subject", encoding="utf-8").read()
m.set_content(open("src/python.text", encoding="utf-8").read())
open(sys.argv[1], "wb").write(m.as_bytes())
PY
fi
if with mutt -v; then
  MESSAGE=$out/mutt.eml mutt -n -F /dev/null -e 'set copy=no charset=utf-8 realname=Jörg from=joerg@example.org' -e "set sendmail='$temp/send'" \
    -s "$(cat src/mutt.subject)" ann@example.org <src/mutt.text
fi
if with s-nail --version; then
  MESSAGE=$out/s-nail.eml s-nail -: / -S v15-compat -S mta="file://$temp/send" -S ttycharset=utf-8 -S from=joerg@example.org -s "$(cat src/s-nail.subject)" ann@example.org <src/s-nail.text
fi
if with git --version; then
  git init --quiet repository
  { cat src/git.subject; printf '\n\n'; cat src/git.text; } |
    git -C repository -c user.name=Jörg -c user.email=joerg@example.org commit --quiet --allow-empty --file=-
  git -C repository format-patch --quiet --root --stdout --always >"$out/git.eml"
fi
du -sh "$out"
