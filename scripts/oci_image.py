"""Writes a container image as one file, without a container engine: layers are archives, and JSON names them by digest.

The format is that of github.com/opencontainers/image-spec (image-layout.md, config.md), in one archive: `docker load`
(from 25.0 on), `podman load` and `skopeo copy oci-archive:…` take it. What a Dockerfile says about the container (user,
environment, ports, volumes, health check, commands) is read from there.
"""

import gzip
import hashlib
import io
import json
import os
import pathlib
import re
import tarfile

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
UNITS = {"s": 10**9, "m": 60 * 10**9}


def settings(dockerfile: str) -> dict:
    """The part of an image's configuration that a Dockerfile sets for the container."""
    config: dict = {}
    for line in re.sub(r"\\\n\s*", "", re.sub(r"^\s*#.*\n", "", dockerfile, flags=re.MULTILINE)).splitlines():
        name, _, value = line.partition(" ")
        match name:
            case "USER":
                config["User"] = value
            case "ENV":
                config.setdefault("Env", ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]).append(value)
            case "VOLUME":
                config["Volumes"] = {value: {}}
            case "EXPOSE":
                config["ExposedPorts"] = {f"{value}/tcp": {}}
            case "ENTRYPOINT" | "CMD":
                config[name.capitalize()] = json.loads(value)
            case "HEALTHCHECK":
                options, _, command = value.partition("CMD ")
                times = {
                    option.title().replace("-", ""): int(number) * UNITS[unit]
                    for option, number, unit in re.findall(r"--([\w-]+)=(\d+)(\w)", options)
                }
                config["Healthcheck"] = {"Test": ["CMD", *json.loads(command)]} | times
            case "FROM" | "RUN" | "COPY" | "":
                pass
            case _:
                raise ValueError(f"{name} is not known: {line}")
    return config


def layer_of(root: pathlib.Path, epoch: int, skip: set[str]) -> bytes:
    """An archive of a folder as the root of a file system, without what a running system makes."""
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb", mtime=epoch, compresslevel=6) as zipped, tarfile.open(fileobj=zipped, mode="w") as archive:
        for folder, folders, files in os.walk(root):
            folders.sort()
            inside = pathlib.Path(folder).relative_to(root)
            folders[:] = [name for name in folders if str(inside / name) not in skip]
            for name in sorted([*folders, *files]):
                info = archive.gettarinfo(pathlib.Path(folder) / name, arcname=str(inside / name))
                # Sockets have no entry in an archive.
                if info is None:
                    continue
                info.mtime = epoch
                with (open(pathlib.Path(folder) / name, "rb") if info.isreg() else io.BytesIO()) as content:
                    archive.addfile(info, content if info.isreg() else None)
    return out.getvalue()


def write(path: pathlib.Path, name: str, architecture: str, created: str, config: dict, layers: list[bytes]) -> None:
    blobs: dict[str, bytes] = {}

    def blob(kind: str, content: bytes) -> dict:
        digest = hashlib.sha256(content).hexdigest()
        blobs[digest] = content
        return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(content)}

    described = [blob(LAYER, layer) for layer in layers]
    # In the configuration layers have the digests of their contents before compression.
    plain = [f"sha256:{hashlib.sha256(gzip.decompress(layer)).hexdigest()}" for layer in layers]
    image = {
        "created": created, "architecture": architecture, "os": "linux", "config": config,
        "rootfs": {"type": "layers", "diff_ids": plain},
    }
    manifest = {
        "schemaVersion": 2, "mediaType": MANIFEST, "config": blob(CONFIG, json.dumps(image).encode()), "layers": described,
    }
    known = blob(MANIFEST, json.dumps(manifest).encode())
    names = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name.rpartition(":")[2]}
    index = {"schemaVersion": 2, "manifests": [known | {"annotations": names}]}
    with tarfile.open(path, "w") as archive:
        files = {"oci-layout": b'{"imageLayoutVersion": "1.0.0"}', "index.json": json.dumps(index).encode()}
        files |= {f"blobs/sha256/{digest}": content for digest, content in sorted(blobs.items())}
        for inside, content in files.items():
            info = tarfile.TarInfo(inside)
            info.size, info.mode = len(content), 0o644
            archive.addfile(info, io.BytesIO(content))


def unpack(path: pathlib.Path, root: pathlib.Path) -> dict:
    """Checks every digest, unpacks the layers as a container engine does, and returns the configuration."""
    with tarfile.open(path) as archive:
        def read(digest: str) -> bytes:
            content = archive.extractfile(f"blobs/sha256/{digest.removeprefix('sha256:')}").read()
            if f"sha256:{hashlib.sha256(content).hexdigest()}" != digest:
                raise ValueError(f"{digest} has another content")
            return content

        (known,) = json.loads(archive.extractfile("index.json").read())["manifests"]
        manifest = json.loads(read(known["digest"]))
        image = json.loads(read(manifest["config"]["digest"]))
        for layer, plain in zip(manifest["layers"], image["rootfs"]["diff_ids"], strict=True):
            content = gzip.decompress(read(layer["digest"]))
            if f"sha256:{hashlib.sha256(content).hexdigest()}" != plain:
                raise ValueError(f"{plain} has another content")
            with tarfile.open(fileobj=io.BytesIO(content)) as files:
                files.extractall(root, numeric_owner=True, filter="fully_trusted")
    return image["config"]
