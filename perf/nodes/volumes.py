# SPDX-License-Identifier: Apache-2.0
"""A cluster of blockd's, and volumes of it that are used as a user uses them:
by `trib`, with the records of the host that uses them (docs/operations.md)."""
import contextlib
import json
import os
import re

from harness.scratch import Failed, run

CONTROL_PORT, DATA_PORT = 21808, 21809
CERTIFICATE = "blockd.perf"  # the name in it
KINDS = ("dir", "raw")
READY_S = 300

# File systems' own, with journals: a part of the files, and bytes.
SPARE = 1.06, 96 << 20
# A union whose branch has less than a sixteenth left writes past the kernel's passthrough,
# so that it can move a file that meets the end; nobody asks how fast that is.
FREE = 1.3


def pool_bytes(files):
    """Of a pool for an extent that holds @files bytes of files."""
    return int(files * SPARE[0]) + SPARE[1] & ~((1 << 20) - 1)


def volume_bytes(files):
    """Of that extent: it is thin, and has room left."""
    return int(pool_bytes(files) * FREE) & ~((1 << 20) - 1)


def _certificates(place):
    """A CA, and one certificate signed by it for all."""
    folder = place.folder("tls")
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    with open(os.path.join(folder, "ext"), "w", encoding="ascii") as f:
        f.write(f"subjectAltName=DNS:{CERTIFICATE}\n")
    for words in (["req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.crt", "-days", "2",
                   "-subj", "/CN=perf"],
                  ["req", *key, "-keyout", "tls.key", "-out", "tls.csr", "-subj", "/CN=perf"],
                  ["x509", "-req", "-in", "tls.csr", "-CA", "ca.crt", "-CAkey", "ca.key",
                   "-CAcreateserial", "-days", "2", "-extfile", "ext", "-out", "tls.crt"]):
        run(["openssl", *words], cwd=folder)
    return folder


class Node:
    """A blockd on a host, with the pools that it was given."""

    def __init__(self, host, tls, settings):
        self.host, self.server = host, None
        for name in ("run", "state"):
            host.folder(name)
        self.tls = {}
        for name in ("ca.crt", "tls.crt", "tls.key"):
            self.tls[name] = host.path(name)
            host.put(os.path.join(tls, name), self.tls[name])
        host.write(host.path("blockd.conf"), "\n".join([
            f"node-name = {host.name}",
            f"control = tcp:{host.address}:{CONTROL_PORT}",
            f"listen = tcp:{host.address}:{DATA_PORT}",
            f"state-dir = {host.path('state')}", f"run-dir = {host.path('run')}",
            f"tls-ca = {self.tls['ca.crt']}", f"tls-cert = {self.tls['tls.crt']}",
            f"tls-key = {self.tls['tls.key']}", *settings, ""]))

    def start(self):
        """It need not answer yet: whoever calls it waits until it does."""
        self.server = self.host.start(
            [self.host.built("bin/blockd"), "--config", self.host.path("blockd.conf")],
            "blockd.log")

    def end(self, signal="TERM"):
        """Returns when it has ended."""
        self.server.signal(signal)
        self.server.ended()


class Volume:
    """Mounted on its client, or a device there."""

    def __init__(self, client, name):
        self.client, self.name = client, name
        self.device = self.point = None

    def show(self):
        return json.loads(self.client.trib("volume", "show", self.name, "--json"))

    def branches(self):
        """Where each branch's files are, without the union."""
        return [split["branch"] + "/data" for split in self.show()["splits"]]

    def nodes(self):
        return [split["node"] for split in self.show()["splits"]]

    def transports(self):
        return [split["transport"] for split in self.show()["splits"]]

    def let_go(self):
        """Unmounted by force, whatever it was in the midst of."""
        with contextlib.suppress(Failed):
            if self.device and self.point:
                self.client.host.script('while umount "$1" 2>/dev/null; do :; done; '
                                        '! mountpoint -q "$1" || umount -l "$1"', self.point)
        with contextlib.suppress(Failed):
            self.client.trib("umount", "--force", self.name)

    def delete(self):
        self.let_go()
        self.client.trib("volume", "delete", self.name)


class Client:
    """A host that uses volumes, with records of its own."""

    def __init__(self, cluster, host):
        self.host, self.cluster = host, cluster
        self.made = 0
        host.write(host.path("trib.conf"),
                   f"store = local:{host.path('records.db')}\n"
                   f"node = {host.name}\nrun-dir = {host.path('run')}\n")
        self.program = host.built("bin/trib")
        if host not in [node.host for node in cluster.nodes]:
            host.folder("run")
            self.trib("node", "add", host.name, "--quiet")
        for node in cluster.nodes:
            self.add(node)

    def add(self, node):
        tls = self.cluster.by_host[self.host].tls if self.host in self.cluster.by_host \
            else self.cluster.put_keys(self.host)
        self.trib("node", "add", node.host.name,
                  "--control", f"tcp:{node.host.address}:{CONTROL_PORT}",
                  "--data", f"{node.host.address}:{DATA_PORT}",
                  "--tls-ca", tls["ca.crt"], "--tls-cert", tls["tls.crt"],
                  "--tls-key", tls["tls.key"], "--tls-name", CERTIFICATE, "--quiet")

    def trib(self, *words, timeout=READY_S):
        return self.host.run([self.program, *words, "--config", self.host.path("trib.conf")],
                             timeout)

    def transports(self):
        """[name, whether it is usable here, why not]"""
        found = json.loads(self.trib("node", "show", "--json"))["transports"]
        return [(one["transport"], one["usable"], one["why"]) for one in found]

    def volume(self, size, nodes, layout="union", transport="auto", kind="dir", raw=False,
               splits=None, fs="ext4"):
        """One of @size bytes, mounted: on @nodes (hosts), in their pool of that @kind, as
        @splits of them (one a node, when not said). A linear one gets an ext4 as a user would
        make one, unless it is to be had @raw: then the volume's device is what counts."""
        self.made += 1
        volume = Volume(self, f"{self.host.name}-v{self.made}".lower())
        point = volume.point = self.host.folder(volume.name)
        splits = splits or len(nodes)
        words = ["--size", str(size), "--layout", layout, "--transport", transport,
                 "--in-pool", kind]
        for node in nodes:
            words += ["--on", node.name]
        if layout == "union":
            words += ["--splits", str(splits), "--share-pools", "--fs", fs]
        self.host.place.undo.callback(volume.let_go)
        self.trib("volume", "create", volume.name, *words, "--quiet")
        if layout == "union":
            self.trib("mount", volume.name, point)
        else:
            volume.device = re.search(r"/dev/\S+", self.trib("mount", volume.name)).group()
            if not raw:
                self.host.run(["mkfs.ext4", "-q", "-F", "-E",
                               "lazy_itable_init=0,lazy_journal_init=0", volume.device])
                self.host.run(["mount", volume.device, point])
        return volume

    def helpers(self):
        """Processes of ours that serve its mounts."""
        return [int(pid) for pid in self.host.script(
            'pgrep -f "trib-(nbd|union) .*$1/" || :', self.host.base).split()]


class Cluster:
    """A blockd on each of @hosts, with these lines besides in its configuration."""

    def __init__(self, place, hosts, settings=()):
        self.tls = _certificates(place)
        self.nodes = [Node(host, self.tls, settings) for host in hosts]
        self.by_host = {node.host: node for node in self.nodes}
        self.pools = {}  # host, kind -> its path
        for node in self.nodes:
            node.start()

    def put_keys(self, host):
        there = {}
        for name in ("ca.crt", "tls.crt", "tls.key"):
            there[name] = host.path(name)
            host.put(os.path.join(self.tls, name), there[name])
        return there

    def pool(self, client, host, kind, size):
        """Makes the pool of that @kind on the @host, on the disk that its folder is on: a
        directory, or a file of room for @size bytes of extents. It promises several times
        what it has, as a volume's splits may stay empty."""
        path = host.path("pool-" + kind)
        if kind == "dir":
            host.run(["mkdir", path])
        else:
            # Its own records take some.
            host.run(["fallocate", "-l", str(size + size // 16 + (256 << 20)), path], 600)
        self.pool_on(client, host, kind, path)

    def pool_on(self, client, host, name, path):
        """Makes the pool @name of the @host: of a directory, a file or a block device."""
        self.pools[host, name] = path
        client.trib("pool", "create", f"{host.name}/{name}", path, "--overcommit", "1000",
                    "--quiet")

    def drop_pool(self, client, host, kind):
        client.trib("pool", "delete", f"{host.name}/{kind}", "--quiet")
        host.run(["rm", "-rf", "--one-file-system", self.pools.pop((host, kind))])
