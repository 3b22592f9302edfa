#!/usr/bin/env python3
"""Puts the files that third_party/wheels.toml names into .deps/.

Each wheel is downloaded by pip (never installed), checked against its sha256
and kept in a cache that may vanish at any time. The folder is laid anew beside
the old one and swapped in whole; its `stamp` says which list it was made from,
so that a second run has nothing to do.
"""

import argparse
import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
LOCK_FILE = ROOT / "third_party" / "wheels.toml"


def sha256_of(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def cache_directory():
    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(base) / "ringmax" / "wheels"


def download(wheel, directory):
    """Downloads one wheel into `directory` for CPython 3.11, whatever runs."""
    requirement = f"{wheel['name']}=={wheel['version']}"
    requirements = directory / "requirements.txt"
    requirements.write_text(f"{requirement} --hash=sha256:{wheel['sha256']}\n")
    command = [
        sys.executable, "-m", "pip", "download", "--quiet",
        "--disable-pip-version-check", "--no-deps", "--no-cache-dir",
        "--only-binary=:all:", "--require-hashes",
        "--platform", "manylinux_2_27_x86_64",
        "--platform", "manylinux_2_31_x86_64", "--python-version", "3.11",
        "--implementation", "cp", "--abi", "cp311", "--abi", "none",
        "--dest", str(directory), "--requirement", str(requirements),
    ]  # fmt: skip
    print(f"set-up: downloading {requirement}", flush=True)
    for attempt in (1, 2, 3):
        if subprocess.run(command, stdin=subprocess.DEVNULL).returncode == 0:
            break
        if attempt == 3:
            sys.exit(f"set-up: pip could not download {requirement}")
        print(f"set-up: attempt {attempt} failed, trying again", flush=True)
    return directory / wheel["file"]


def check(wheel, path):
    """Ends the program unless `path` is the wheel that the list pins."""
    if not path.is_file():
        sys.exit(f"set-up: pip left no {wheel['file']}: is `file` right in"
                 f" {LOCK_FILE.name}?")
    found = sha256_of(path)
    if found != wheel["sha256"]:
        sys.exit(f"set-up: {path} has sha256 {found}, but {LOCK_FILE.name}"
                 f" pins {wheel['sha256']}; nothing was taken out of it")


def obtain(wheel, scratch):
    """The checked wheel, from the cache or else from the registry."""
    cached = cache_directory() / wheel["file"]
    if cached.is_file():
        if sha256_of(cached) == wheel["sha256"]:
            return cached
        print(f"set-up: the cached {cached} is damaged, fetching it again")
    path = download(wheel, scratch)
    check(wheel, path)
    try:
        cached.parent.mkdir(parents=True, exist_ok=True)
        partial = cached.with_name(f".{cached.name}.{os.getpid()}")
        shutil.copyfile(path, partial)
        partial.replace(cached)
    except OSError as error:
        print(f"set-up: not cached ({error})")
    return path


def members_to_take(archive, take):
    """Yields (member, destination) for each file that `take` asks for."""
    names = [name for name in archive.namelist() if not name.endswith("/")]
    for source, destination in take.items():
        if source.endswith("/"):
            found = [name for name in names if name.startswith(source)]
            pairs = [(n, destination + n.removeprefix(source)) for n in found]
        else:
            pairs = [(n, destination) for n in names if n == source]
        if not pairs:
            sys.exit(f"set-up: no {source} in {archive.filename}")
        yield from pairs


def licenses(archive, wheel):
    for name in archive.namelist():
        if ".dist-info/licenses/" in name and not name.endswith("/"):
            yield name, f"licenses/{wheel['name']}/{pathlib.Path(name).name}"


def extract(wheel, path, root):
    with zipfile.ZipFile(path) as archive:
        pairs = list(members_to_take(archive, wheel["take"]))
        for member, destination in pairs + list(licenses(archive, wheel)):
            target = root / destination
            if not target.resolve().is_relative_to(root.resolve()):
                sys.exit(f"set-up: {destination} lies outside of {root}")
            target.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(member) as source, open(target, "wb") as out:
                shutil.copyfileobj(source, out, 1 << 20)


def is_current(destination, stamp):
    try:
        return (destination / "stamp").read_text() == stamp
    except OSError:
        return False


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dest", type=pathlib.Path, default=ROOT / ".deps")
    # A link stays a link: what it points to is laid anew.
    destination = parser.parse_args().dest.resolve()

    text = LOCK_FILE.read_bytes()
    stamp = hashlib.sha256(text + pathlib.Path(__file__).read_bytes())
    stamp = stamp.hexdigest() + "\n"
    if is_current(destination, stamp):
        return
    with open(destination.with_name(destination.name + ".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if is_current(destination, stamp):
            return
        scratch = tempfile.mkdtemp(prefix=f"{destination.name}.new.",
                                   dir=destination.parent)
        scratch = pathlib.Path(scratch)
        try:
            fresh = scratch / "deps"
            fresh.mkdir()
            for wheel in tomllib.loads(text.decode())["wheel"]:
                path = obtain(wheel, scratch)
                check(wheel, path)
                extract(wheel, path, fresh)
            (fresh / "stamp").write_text(stamp)
            if destination.exists():
                destination.rename(scratch / "old")
            fresh.rename(destination)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    print(f"set-up: {destination} holds the headers and the plugins")


if __name__ == "__main__":
    main()
