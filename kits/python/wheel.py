#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Writes the wheel of verbena-pytest. The same files always give the same bytes; it needs no network and no setuptools.

    wheel.py FOLDER        writes verbena_pytest-VERSION-py3-none-any.whl there and prints its name

pip calls build_wheel (PEP 517, see pyproject.toml).
"""

import base64
import hashlib
import pathlib
import re
import sys
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
PACKAGE = "verbena_pytest"
MOMENT = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip file can hold
METADATA = """\
Metadata-Version: 2.1
Name: verbena-pytest
Version: {version}
Summary: pytest fixtures for an RDMA device in software
License: BSD-2-Clause
Classifier: Framework :: Pytest
Requires-Python: >=3.9
Requires-Dist: pytest (>=6.2)
Description-Content-Type: text/markdown

{readme}"""
WHEEL = """\
Wheel-Version: 1.0
Generator: verbena
Root-Is-Purelib: true
Tag: py3-none-any
"""
ENTRY_POINTS = """\
[pytest11]
verbena = verbena_pytest.plugin
"""


def version():
    """Returns the version of the package, which an installed package has as well. A test compares it with the product's."""
    text = (HERE / PACKAGE / "version.py").read_text(encoding="utf-8")
    return re.search(r'^VERSION = "([\d.]+)"$', text, re.MULTILINE)[1]


def contents():
    """Returns {name in the archive: bytes}, without the record."""
    about = f"{PACKAGE}-{version()}.dist-info"
    readme = (HERE / "README.md").read_text(encoding="utf-8")
    files = {f"{PACKAGE}/{path.name}": path.read_bytes() for path in sorted((HERE / PACKAGE).glob("*.py"))}
    files[f"{about}/METADATA"] = METADATA.format(version=version(), readme=readme).encode()
    files[f"{about}/WHEEL"] = WHEEL.encode()
    files[f"{about}/entry_points.txt"] = ENTRY_POINTS.encode()
    return files, f"{about}/RECORD"


def record_line(name, data):
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}\n"


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    files, record = contents()
    files[record] = ("".join(record_line(*file) for file in files.items()) + f"{record},,\n").encode()
    name = f"{PACKAGE}-{version()}-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(wheel_directory, name), "w") as archive:
        for path, data in files.items():
            entry = zipfile.ZipInfo(path, MOMENT)
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, data, zipfile.ZIP_STORED)
    return name


if __name__ == "__main__":
    if len(sys.argv) != 2 or not pathlib.Path(sys.argv[1]).is_dir():
        sys.exit("wheel.py: name the folder that the wheel is written to")
    print(build_wheel(sys.argv[1]))
