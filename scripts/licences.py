"""Checks that every dependency may be combined with AGPL-3.0-or-later. Needs no network."""

import json
import re
import subprocess
import sys

# Licences that may be combined into an AGPL-3.0-or-later program.
ACCEPTED = {
    "0BSD", "AGPL-3.0-only", "AGPL-3.0-or-later", "AGPL-3.0", "Apache-2.0", "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CC0-1.0", "CDLA-Permissive-2.0", "IJG", "ISC", "MIT", "MIT-0",
    "MPL-2.0", "OFL-1.1", "Unicode-3.0", "Unlicense", "Zlib",
}


def acceptable(expression: str) -> bool:
    """An SPDX expression: OR needs one side, AND needs both; `/` is an old way to write OR."""
    tokens = re.findall(r"\(|\)|[^()\s]+", expression.replace("/", " OR "))
    position = 0

    def either() -> bool:
        nonlocal position
        value = both()
        while position < len(tokens) and tokens[position] == "OR":
            position += 1
            value = both() or value
        return value

    def both() -> bool:
        nonlocal position
        value = one()
        while position < len(tokens) and tokens[position] == "AND":
            position += 1
            value = one() and value
        return value

    def one() -> bool:
        nonlocal position
        token = tokens[position]
        position += 1
        if token == "(":
            value = either()
            position += 1
            return value
        if position < len(tokens) and tokens[position] == "WITH":
            token += f" WITH {tokens[position + 1]}"
            position += 2
        return token in ACCEPTED

    return either()


def main() -> int:
    metadata = json.loads(
        subprocess.run(
            ["cargo", "metadata", "--format-version", "1", "--locked"], check=True, capture_output=True
        ).stdout
    )
    refused = []
    for package in metadata["packages"]:
        licence = package.get("license") or ""
        if not licence or not acceptable(licence):
            refused.append(f"{package['name']} {package['version']}: {licence or 'no licence given'}")
    if refused:
        print("dependencies whose licence is not on the list:", *refused, sep="\n  ", file=sys.stderr)
        return 1
    print(f"{len(metadata['packages'])} packages, all acceptable")
    return 0


if __name__ == "__main__":
    sys.exit(main())
