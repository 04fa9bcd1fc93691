#!/bin/sh
# Reads every PDF of a folder into Markdown:
#
#     examples/batch-folder.sh scans out
#     EVERYPAGE=/usr/local/bin/everypage examples/batch-folder.sh scans out --deadline 30m
#
# Writes out/NAME.md for each scans/NAME.pdf, and out/report.json with the source of every page and the cost.
# Running it again within 24 hours returns the stored results without calling a model. Options after the two
# folders are passed to `everypage process`.
#
# Exit code 0: every document has a result. 1: some document failed. 2: wrong usage.
set -eu

if [ $# -lt 2 ]; then
    echo "usage: $0 FOLDER OUTPUT [OPTION...]" >&2
    exit 2
fi
folder=$1 output=$2
shift 2
everypage=${EVERYPAGE:-$(dirname "$0")/../everypage}

found=$(find "$folder" -maxdepth 1 -type f -name '*.pdf' | head -n 1)
if [ -z "$found" ]; then
    echo "$0: no PDF in $folder" >&2
    exit 2
fi
mkdir -p "$output"

# 3 and 4 mean that all is done, but some page has MuPDF's text instead of a model's, or none: see docs/results.md.
code=0
"$everypage" process "$folder"/*.pdf -o "$output" --format markdown --json "$@" >"$output/report.json" || code=$?

python3 - "$output/report.json" <<'PYTHON'
import json, sys

report = json.load(open(sys.argv[1]))
for document in report["documents"]:
    meta = document["metadata"] or {}
    if document["error"]:
        print(f"{document['file']}: {document['status']}: {document['error']['reason']}")
    elif document["exit_code"] == 0:
        print(f"{document['file']}: complete, {meta['total_pages']} pages")
    else:
        lacking = f"{meta['pages_failed']} of {meta['ai_pages']} pages for AI fell back"
        if meta["missing_pages"]:
            lacking += f", no text on {', '.join(map(str, meta['missing_page_numbers']))}"
        print(f"{document['file']}: {lacking}; to read them again: everypage heal {document['job']}")
cost = sum((document["metadata"] or {}).get("cost_micro_usd", 0) for document in report["documents"])
print(f"estimated cost ${cost / 1e6:.4f}, details in {sys.argv[1]}")
PYTHON

case $code in
    0 | 3 | 4) ;;
    *) exit "$code" ;;
esac
