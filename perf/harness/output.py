# SPDX-License-Identifier: Apache-2.0
"""Files that a person asked for: whole, or as they were before."""
import contextlib
import os
import sys
import tempfile

from harness.scratch import CannotRun, Failed


def plots_needed():
    """The report's module; CannotRun() where its pictures can't be made."""
    try:
        from harness import report  # pylint: disable=import-outside-toplevel
    except ImportError as e:
        raise CannotRun(f"the report needs python3-matplotlib; make deps installs it ({e})") from e
    return report


def may_be(path):
    """Failed() when write() would fail for sure; before hours of measuring."""
    folder = os.path.dirname(path) or "."
    if path == "-" or os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
        return
    if os.path.isdir(path) or not os.path.isdir(folder) or not os.access(folder, os.W_OK):
        raise Failed(f"cannot write {path}: " + (
            "it is a directory" if os.path.isdir(path) else
            f"{folder} is no directory" if not os.path.isdir(folder) else f"{folder} is not writable"))


def write(path, text):
    """To the file, "-" or what else is there already (a pipe, a terminal)."""
    data = text.encode("utf-8")
    try:
        if path == "-":
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        elif os.path.exists(path) and not os.path.isfile(path):
            with open(path, "wb") as f:
                f.write(data)
        else:
            _replace(os.path.realpath(path), data)
    except OSError as e:
        raise Failed(f"cannot write {path}: {e.strerror}") from e


def _replace(path, data):
    mask = os.umask(0)
    os.umask(mask)
    fd, new = tempfile.mkstemp(prefix=os.path.basename(path)[:100] + ".", dir=os.path.dirname(path))
    try:
        with open(fd, "wb") as f:
            f.write(data)
            os.fchmod(fd, 0o666 & ~mask)
        os.replace(new, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(new)
        raise
