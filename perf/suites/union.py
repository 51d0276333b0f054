# SPDX-License-Identifier: Apache-2.0
"""trib-union beside the branches' own file system and mergerfs: data
(unions/data.py), names (unions/names.py) and a server that is killed
(unions/recovery.py).

"device": ext4 branches on loop devices with direct I/O, so a request reaches
the machine's disk. "memory": tmpfs branches, so that what the union itself
costs is all there is. All sides work on the same branches, each on a file or
folder of its own; after every round of data the files must hold the same
bytes.
"""
import os
import shutil

from harness.scratch import CannotRun, built, need
from unions import data, names, recovery, sides

# Many short rounds: one request at a time feels every disturbance.
ROUNDS = (5, 15)  # quick, full


def setup(place, quick):
    need("fio", "mkfs.ext4", "losetup", "setpriv")
    if os.geteuid() != 0:
        raise CannotRun("needs root")
    built("bin/trib-union")
    merger_name = sides.mergerfs_name()
    if shutil.disk_usage(place.path).free < 6 << 30:
        raise CannotRun(f"needs 6 GiB free at {place.path}")
    return [*data.cases(place, quick, merger_name), *names.cases(place, merger_name),
            *recovery.cases(place)]
