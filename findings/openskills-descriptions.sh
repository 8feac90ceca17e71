#!/usr/bin/env bash
# openskills 1.5 reads the front matter of a skill line by line. Of a description in a block (">-", as many skills of the format have it) it writes the
# two characters ">-" into AGENTS.md, so that no agent knows what the skill is for; of one that goes on in the next line only the first line;
# quotes of YAML stay. npm's skills-ref 0.1.5 reads the same files as YAML.
# Seen on 2026-11-30 with Node 20: the lines at the end.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
export HOME=$dir
npm init -y >log 2>&1
npm install --no-audit --no-fund openskills@1.5.0 skills-ref@0.1.5 >>log 2>&1 || { cat log; exit 1; }
skill() {
  mkdir -p ".claude/skills/$1"
  printf -- '---\nname: %s\n%b\n---\nDo it.\n' "$1" "$2" >".claude/skills/$1/SKILL.md"
}
skill block 'description: >-\n  Pays refunds up to a limit.\n  Use it when a customer wants money back.'
skill lines 'description: Pays refunds up to a limit.\n  Use it when a customer wants money back.'
skill quoted 'description: "Refunds: pays up to a limit."'
npx openskills sync -y >>log 2>&1
for name in block lines quoted; do
  echo "$name openskills: $(grep -A1 "<name>$name</name>" AGENTS.md | sed -n 's/<description>\(.*\)<\/description>/\1/p')"
  echo "$name skills-ref: $(npx skills-ref read-properties ".claude/skills/$name" | sed -n 's/ *"description": "\(.*\)"/\1/p')"
done | tee seen
diff seen - <<'EOF'
block openskills: >-
block skills-ref: Pays refunds up to a limit. Use it when a customer wants money back.
lines openskills: Pays refunds up to a limit.
lines skills-ref: Pays refunds up to a limit. Use it when a customer wants money back.
quoted openskills: "Refunds: pays up to a limit."
quoted skills-ref: Refunds: pays up to a limit.
EOF
echo "as stated, with openskills 1.5.0 and skills-ref 0.1.5"
