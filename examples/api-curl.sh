#!/bin/sh
# Submits a PDF to the HTTP API, waits for the end of the job and prints the result as Markdown:
#
#     ./everypage serve &
#     examples/api-curl.sh report.pdf > report.md
#     EVERYPAGE_URL=https://… EVERYPAGE_KEY=ep_… examples/api-curl.sh report.pdf > report.md
#
# Needs curl and jq. On AWS a document over about 4.5 MB has to be uploaded: see read_pdf.py.
set -eu

file=${1:?usage: $0 FILE.pdf}
url=${EVERYPAGE_URL:-http://127.0.0.1:8080}

# The key goes through a file descriptor, not through the arguments that other users can see.
call() {
    if [ -n "${EVERYPAGE_KEY:-}" ]; then
        printf 'header = "Authorization: Bearer %s"\n' "$EVERYPAGE_KEY"
    fi | curl --silent --show-error --fail-with-body --retry 5 --config - "$@"
}

# Safe to repeat: the same document with the same options within 24 hours is the same job.
name=$(basename "$file" | jq -Rr @uri)
job=$(call --header 'content-type: application/pdf' --data-binary "@$file" "$url/v1/jobs?name=$name" | jq -r .id)
echo "job $job" >&2

while :; do
    state=$(call "$url/v1/jobs/$job")
    echo "$state" | jq -r '"\(.status) \(.progress // 0) %: \(.message)"' >&2
    case $(echo "$state" | jq -r .status) in
        success) break ;;
        failed | rejected | cancelled) exit 1 ;;
    esac
    sleep 2
done

# A large result on AWS is a redirect into the bucket; curl does not send the key there.
call --location "$url/v1/jobs/$job/result?format=markdown"
