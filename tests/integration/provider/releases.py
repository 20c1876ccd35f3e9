#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""One plugin file with libibverbs of another Debian release: discovery and traffic with the release's own tools.

    releases.py PREFIX CACHE RELEASE

PREFIX is a build tree or an installation, CACHE a folder for what is fetched. apt fetches the release's packages (into
folders of its own, with the distribution's keys); they are unpacked, not installed. A release with a newer C library
than this machine's brings its own. Ends with 0 if all went well, with 1 if something failed, and with 77 and a reason
if the release cannot be fetched.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

from device import Emulator, Pair

PACKAGES = ["libibverbs1", "ibverbs-utils", "libnl-3-200", "libnl-route-3-200", "libc6"]
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
SKIP = 77
LIBRARIES = "usr/lib/x86_64-linux-gnu"


class NotReachable(Exception):
    """The release cannot be fetched; the text says why."""


def mirror():
    """Returns the mirror from which this machine gets Debian."""
    for path in sorted(pathlib.Path("/etc/apt").glob("sources.list.d/*.sources")):
        found = re.search(r"^URIs: *(\S*/debian/?)\s*$", path.read_text(), re.MULTILINE)
        if found:
            return found.group(1)
    return "http://deb.debian.org/debian"


def fetch(release, cache):
    """Returns the unpacked packages of the release, which it fetches once."""
    root = cache / release
    if (root / "complete").exists():
        return root
    shutil.rmtree(root, ignore_errors=True)
    apt = root / "apt"
    for folder in ("lists/partial", "archives/partial", "etc/preferences.d", "debs"):
        (apt / folder).mkdir(parents=True)
    (apt / "status").touch()
    (apt / "sources.list").write_text(f"deb [arch=amd64 signed-by={KEYS}] {mirror()} {release} main\n")
    settings = {"Dir::Etc": apt / "etc", "Dir::Etc::SourceList": apt / "sources.list", "Dir::Etc::SourceParts": "-",
                "Dir::State::Lists": apt / "lists", "Dir::State::Status": apt / "status", "Dir::Cache": apt,
                "Dir::Cache::Archives": apt / "archives", "APT::Sandbox::User": "root",
                "APT::Get::List-Cleanup": "0", "Acquire::Retries": "2", "Acquire::http::Timeout": "30",
                "Acquire::Languages": "none"}
    options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
    run_apt(["apt-get", *options, "update", "--error-on=any"], apt)
    run_apt(["apt-get", *options, "download", *PACKAGES], apt / "debs")
    for package in (apt / "debs").glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", package, root / "tree"], check=True)
    shutil.rmtree(apt)
    (root / "complete").touch()
    return root


def run_apt(command, folder):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        raise NotReachable((done.stderr or done.stdout).strip().splitlines()[-1])


def version_of(library):
    """Returns the version that a C library contains, as (2, 36)."""
    found = re.search(rb"GNU C Library \([^)]*\) stable release version (\d+)\.(\d+)", library.read_bytes())
    return (int(found.group(1)), int(found.group(2))) if found else (0, 0)


def first(tree, *patterns):
    for pattern in patterns:
        for path in sorted(tree.glob(pattern)):
            return path
    raise NotReachable(f"the release's packages have no {patterns[0]}")


def launcher(tree):
    """Returns the words before a program of the release, and the environment, that make it use the release's libraries."""
    library = first(tree, f"{LIBRARIES}/libc.so.6", "lib/x86_64-linux-gnu/libc.so.6")
    own = pathlib.Path("/lib/x86_64-linux-gnu/libc.so.6")
    paths = [str(tree / LIBRARIES), str(tree / "lib/x86_64-linux-gnu")]
    if version_of(library) > version_of(own):
        loader = first(tree, "usr/lib64/ld-linux-x86-64.so.2", "lib64/ld-linux-x86-64.so.2",
                       f"{LIBRARIES}/ld-linux-x86-64.so.2", "lib/x86_64-linux-gnu/ld-*.so*")
        return [str(loader.resolve()), "--library-path", ":".join(paths)], {}
    # The plugin needs a newer C library than the release's. libibverbs and libnl are the release's.
    shelf = tree / "shelf"
    shelf.mkdir(exist_ok=True)
    for name in ("libibverbs.so.1", "libnl-3.so.200", "libnl-route-3.so.200"):
        link = shelf / name
        link.unlink(missing_ok=True)
        link.symlink_to(first(tree, f"{LIBRARIES}/{name}", f"lib/x86_64-linux-gnu/{name}").resolve())
    return ["env", f"LD_LIBRARY_PATH={shelf}"], {}


# Programs, and options of both sides: classic verbs, extended ones, events, shared queues, datagrams.
RUNS = [
    ("ibv_rc_pingpong", ["-n", "200"]),
    ("ibv_rc_pingpong", ["-n", "200", "-e", "-g", "0"]),
    ("ibv_rc_pingpong", ["-n", "50", "-c", "-s", "65536"]),
    ("ibv_rc_pingpong", ["-n", "200", "-N"]),
    ("ibv_uc_pingpong", ["-n", "100", "-s", "1024"]),
    ("ibv_ud_pingpong", ["-n", "100", "-s", "1024"]),
    ("ibv_srq_pingpong", ["-n", "100", "-q", "4"]),
    ("ibv_xsrq_pingpong", []),
]


def check(device, tree):
    words, _ = launcher(tree)
    tool = lambda name: [*words, str(tree / "usr/bin" / name)]  # noqa: E731
    listed = device.run([*tool("ibv_devinfo"), "-v"])
    failures = []
    if listed.returncode != 0 or "PORT_ACTIVE" not in listed.stdout:
        failures.append(f"ibv_devinfo: {listed.returncode}: {listed.stderr or listed.stdout}")
    before = device.sent_packets()
    for program, options in RUNS:
        pair = Pair(device, [*tool(program), *options])
        print(f"  {program} {' '.join(options)}: {'ok' if pair.ok else 'FAILED'}", flush=True)
        if not pair.ok:
            failures.append(pair.report())
    if device.sent_packets() <= before:
        failures.append("the device's packet counter did not move")
    return failures


def main():
    prefix, cache, release = sys.argv[1], pathlib.Path(sys.argv[2]).resolve(), sys.argv[3]
    try:
        root = fetch(release, cache)
        library = first(root / "tree", f"{LIBRARIES}/libibverbs.so.1", "lib/x86_64-linux-gnu/libibverbs.so.1").resolve()
    except (NotReachable, subprocess.SubprocessError, OSError) as why:
        print(f"{release}: skipped, it cannot be fetched: {why}")
        return SKIP
    print(f"{release}: {library.name}")
    with Emulator(prefix) as device:
        failures = check(device, root / "tree")
    for failure in failures:
        print(failure)
    return 1 if failures else 0


if __name__ == "__main__":
    os.umask(0o022)
    sys.exit(main())
