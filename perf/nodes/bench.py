# SPDX-License-Identifier: Apache-2.0
"""Hosts, a cluster on them and sides that lie on it, for the suites thesis and nodes."""
import functools
import os
import shutil

from harness import hosts as kinds_of_hosts
from harness.measure import Sample
from harness.scratch import CannotRun, built
from nodes import volumes, works

LEAST = 64 << 20  # bytes of the file that is worked on
RESERVE = 2 << 30


def mib(count):
    return f"{count >> 20} MiB" if count % (1 << 30) else f"{count >> 30} GiB"


class Bench:
    """@count hosts (as many as there are of others, with --hosts), the first of which uses the
    volumes; a blockd on each of them, with the @settings besides (lines)."""

    def __init__(self, place, count, settings=()):
        for program in ("blockd", "trib", "trib-union", "trib-nbd"):
            built("bin/" + program)
        if not shutil.which("openssl"):
            raise CannotRun("needs openssl; make deps installs it")
        self.place, self.options, self.settings = place, place.options, settings
        if self.options.hosts:
            found = kinds_of_hosts.Ssh(place, self.options.hosts[:count])
        else:
            found = kinds_of_hosts.Namespaces(place, count, self.options.mbit, self.options.delay)
        self.hosts, self.client_host = found.hosts, found.hosts[0]
        for what, why in found.skipped:
            place.skip(what, why)
        for host in self.hosts:
            host.need_root()
        self.client_host.need("fio", "mkfs.ext4", "losetup", "dd", "pgrep")
        place.hosts += [host.facts() for host in self.hosts]

    def file_size(self, default, files):
        """Bytes of the file of each of @files sides at once, as far as there is room."""
        wanted = self.options.size or default
        per_file = 1.1 * (files if not self.options.hosts else max(2, files // 2))
        room = int((min(host.free() for host in self.hosts) - RESERVE) / per_file)
        size = min(wanted, room) & ~(LEAST - 1)
        if size < LEAST:
            raise CannotRun(f"needs {mib(int(LEAST * per_file) + RESERVE >> 20 << 20)} free at "
                            f"{os.path.dirname(self.client_host.base)}")
        if size < wanted:
            self.place.skip(f"files of {mib(wanted)}", f"the disk has room for {mib(size)} each")
        return size

    @functools.cached_property
    def cluster(self):
        return volumes.Cluster(self.place, self.hosts, self.settings)

    @functools.cached_property
    def client(self):
        return volumes.Client(self.cluster, self.client_host)

    def transports(self):
        """Those that can reach another node; what cannot is told of."""
        found = []
        for name, usable, why in self.client.transports():
            if name == "loop":
                continue
            if usable:
                found.append(name)
            else:
                self.place.skip(f"transport {name}", why)
        return found

    # ---- sides; each has its file ----

    def local(self, size):
        """A directory on the disk of the host that uses the volumes."""
        host = self.client_host
        folder = host.folder("local")
        side = works.Side("Local, ext4" if "ext4" in host.facts()["disk"] else "Local", host, folder,
                          ((host, folder),))
        works.lay_out(side, size)
        return side

    def floor(self, local):
        """A side of a case: the network to the second host and back, and then @local, a side."""
        def measure(number):
            sample = local(number)
            wire = kinds_of_hosts.distance_us(*self.hosts[:2], 2000)
            return Sample(sample.work, {"latency": sample.figures["latency"] + wire})
        return measure

    def pool(self, node, kind, *sizes):
        """With room for volumes with files of these sizes in all."""
        self.cluster.pool(self.client, node, kind, sum(map(volumes.pool_bytes, sizes)))

    def volume(self, title, nodes, size, **how):
        """A side on a volume that is made for it, and the volume: each of its extents holds
        @room bytes of files (the one file's)."""
        kind = how.get("kind", "dir")
        client = how.pop("client", self.client)
        each = volumes.volume_bytes(how.pop("room", size))
        for node in nodes:
            if (node, kind) not in self.cluster.pools:
                self.pool(node, kind, size)
        splits = how.pop("splits", None) or len(nodes)
        volume = client.volume(each * splits, nodes, splits=splits, **how)
        behind = [(node, self.cluster.pools[node, kind]) for node in nodes]
        if volume.device is None:
            # fio drops the pages of the union's files, not of its branches'.
            behind.insert(0, (client.host, *volume.branches()))
        side = works.Side(title, client.host, volume.point, tuple(behind),
                          client.helpers, lambda: [(node, self.cluster.by_host[node].server.pid)
                                                   for node in nodes])
        works.lay_out(side, size)
        return side, volume

    def branch_index(self, side, volume):
        """Of the branch that the file is on."""
        return next(i for i, branch in enumerate(volume.branches()) if side.host.script(
            '[ ! -e "$1" ] || echo yes', f"{branch}/{works.DATA}"))

    def branch_of(self, side, volume, title):
        """The same file, past the union."""
        branch = volume.branches()[self.branch_index(side, volume)]
        return works.Side(title, side.host, branch, side.behind, side.clients, side.servers)
