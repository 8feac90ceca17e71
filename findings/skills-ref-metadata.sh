#!/usr/bin/env bash
# The metadata of a skill are texts. npm's skills-ref 0.1.5 finds a skill valid whose metadata are plain YAML, and then gives other texts: version 1.10 is
# "1.1", and a date is a text of JavaScript that depends on the time zone of the machine, up to another day. A description that is a number is valid
# for "validate" and an error for "read-properties".
# Seen on 2026-11-30 with Node 20: the lines at the end.
set -euo pipefail
version=0.1.5
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm init -y >log 2>&1
npm install --no-audit --no-fund "skills-ref@$version" >>log 2>&1 || { cat log; exit 1; }
mkdir refunds year
printf -- '---\nname: refunds\ndescription: Pays refunds.\nmetadata:\n  version: 1.10\n  released: 2026-01-01\n---\nDo it.\n' >refunds/SKILL.md
printf -- '---\nname: year\ndescription: 2026\n---\nDo it.\n' >year/SKILL.md
{
  npx skills-ref validate refunds
  for zone in UTC America/New_York; do
    TZ=$zone npx skills-ref read-properties refunds | sed -n 's/^ *"\(version\|released\)": "\(.*\)",\{0,1\}$/'"${zone##*/}"' \1: \2/p'
  done
  npx skills-ref validate year
  npx skills-ref read-properties year 2>&1 || true
} | tee seen
diff seen - <<'EOF'
Valid skill: refunds
UTC version: 1.1
UTC released: Thu Jan 01 2026 00:00:00 GMT+0000 (Coordinated Universal Time)
New_York version: 1.1
New_York released: Wed Dec 31 2025 19:00:00 GMT-0500 (Eastern Standard Time)
Valid skill: year
Error: Field 'description' must be a non-empty string
EOF
echo "as stated, with skills-ref $version"
