"""Builds the wheel: generates the core of the client, and adds the program if there is one.

The generated code is not in the repository: it would be out of date with the first change of the API.
"""

import json
import os
import pathlib
import subprocess
import sys
import sysconfig
import tempfile

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# The programs that the wheel carries, for `uvx everypage process x.pdf`; without them, the wheel is the client alone.
BINARY = "EVERYPAGE_BINARY"
# What the program runs on, such as manylinux_2_28_x86_64.
PLATFORM = "EVERYPAGE_PLATFORM"


class BuildHook(BuildHookInterface):
    def initialize(self, version: str, build_data: dict) -> None:
        self.scratch = tempfile.TemporaryDirectory(prefix="everypage-client-")
        generated = pathlib.Path(self.scratch.name) / "generated"
        generate(pathlib.Path(self.root), generated)
        build_data["force_include"][str(generated)] = "everypage/generated"
        if binaries := os.environ.get(BINARY):
            platform = os.environ.get(PLATFORM) or sysconfig.get_platform().replace("-", "_")
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{platform}"
            for binary in binaries.split(os.pathsep):
                build_data["shared_scripts"][binary] = pathlib.Path(binary).name

    def finalize(self, version: str, build_data: dict, artifact: str) -> None:
        self.scratch.cleanup()


def generate(root: pathlib.Path, folder: pathlib.Path) -> None:
    document = root.parent.parent / "shared" / "api" / "openapi.json"
    config = folder.parent / "config.json"
    # No formatting: it is for people, and this code is read by none.
    overrides = {kind: "application/octet-stream" for kind in binary_types(json.loads(document.read_text()))}
    config.write_text(json.dumps({"post_hooks": [], "content_type_overrides": overrides}))
    command = [
        sys.executable, "-m", "openapi_python_client", "generate", "--path", str(document), "--config", str(config),
        "--meta", "none", "--output-path", str(folder), "--fail-on-warning",
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise RuntimeError(f"the client can't be generated from {document}:\n{done.stdout}")


def binary_types(document: dict) -> set[str]:
    """The media types of bodies that are bytes. openapi-python-client knows application/octet-stream alone."""
    found = set()
    for operation in (operation for item in document["paths"].values() for operation in item.values()):
        bodies = [operation.get("requestBody", {}), *operation["responses"].values()]
        for media_type, content in (entry for body in bodies for entry in body.get("content", {}).items()):
            if content.get("schema", {}).get("format") == "binary":
                found.add(media_type)
    return found
