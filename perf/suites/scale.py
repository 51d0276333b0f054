# SPDX-License-Identifier: Apache-2.0
"""What a large cluster costs: 1,000 nodes and 100,000 volumes beside 3 nodes.

Two clusters, each with an etcd of its own, a driver, and one program that
stands for the nodes (tests/fake_cluster.c). A client makes and deletes volumes
of three extents by both drivers (tests/csi/scale_main.c), and lists all. The
other side of the first row is the small cluster; of the others what is asked
for. etcd does not wait for its disk.
"""
import json
import os
import re

from harness.measure import Case, Goal, Sample
from harness.scratch import CannotRun, built, need, run, wait_for
from suites.life import asked, free_port

ROUNDS = (3, 7)  # quick, full
NODES, SMALL_NODES = 1000, 3
VOLUMES = (10000, 100000)  # quick, full
RSS_MIB, PLACE_MS, LIST_S = 256, 20, 60
READY_S = 900


class Cluster:
    def __init__(self, place, name, nodes, volumes):
        self.folder, self.volumes = place.folder(name), volumes
        for part in ("etcd", "nodes", "host1", "host2", "host3", "host1/run"):
            os.mkdir(os.path.join(self.folder, part))
        client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        store = f"etcd:/trib,endpoint={client}"
        place.server(f"etcd-{name}", [
            "etcd", "--data-dir", f"{self.folder}/etcd", "--unsafe-no-fsync",
            "--quota-backend-bytes", str(8 << 30), "--logger", "zap",
            "--listen-client-urls", client, "--advertise-client-urls", client,
            "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
            "--initial-cluster", f"default={peer}"], lambda: self.answers(client))
        self.nodes = place.server(f"nodes-{name}", [
            built("test/tests/fake_cluster"), store, f"{self.folder}/nodes",
            str(nodes), str(volumes)], lambda: True)
        wait_for(f"{nodes} nodes and {volumes} volumes", self.ready, READY_S)
        self.driver = place.server(f"trib-csi-{name}", [
            built("bin/trib-csi"), "--endpoint", f"unix://{self.folder}/host1/csi.sock",
            "--node", "host1", "--store", store, "--run-dir", f"{self.folder}/host1/run"],
            lambda: os.path.exists(f"{self.folder}/host1/csi.sock"))

    @staticmethod
    def answers(client):
        try:
            run(["etcdctl", "--endpoints", client, "endpoint", "health"],
                env={**os.environ, "ETCDCTL_API": "3"})
            return True
        except Exception:  # it is not up yet
            return False

    def ready(self):
        self.nodes.alive()
        with open(self.nodes.log, encoding="utf-8") as log:
            return re.search("^ready", log.read(), re.MULTILINE)

    def calls(self, times, listed=True):
        self.nodes.alive()
        self.driver.alive()
        count = str(self.volumes) if listed else "none"
        return json.loads(run([built("test/tests/csi/scale_main"), self.folder, str(times), count],
                              timeout=READY_S))

    def peak_mib(self):
        with open(f"/proc/{self.driver.process.pid}/status", encoding="ascii") as f:
            return next(int(line.split()[1]) / 1024 for line in f if line.startswith("VmHWM"))


def placed(_number):
    said = run([built("test/volume/plan/planner_test")])
    return Sample(10000, {"place": float(re.search("10,000 pools: ([0-9.]+) ms", said)[1])})


def setup(place, quick):
    need("etcd", "etcdctl", "setpriv")
    if os.geteuid() != 0:
        raise CannotRun("needs root")
    small = Cluster(place, "small", SMALL_NODES, 0)
    large = Cluster(place, "large", NODES, VOLUMES[not quick])
    times = 20 if quick else 50

    def calls(cluster):
        return lambda _number: Sample(times, {
            name: ms for name, ms in cluster.calls(times, listed=False).items()})

    def listed(_number):
        found = large.calls(1)
        return Sample(large.volumes, {"list": found["list"], "rss": large.peak_mib()})

    wanted = [("list", "s", LIST_S), ("rss", "MiB", RSS_MIB)]
    return [Case(f"volume of 3 extents, {NODES:,} nodes and {large.volumes:,} volumes",
                 {"ours": calls(large), "small": calls(small)},
                 {"small": f"{SMALL_NODES} nodes, no other volume"},
                 [Goal(name, "ms", "small", "<=", 1.5) for name in ("create", "delete")]),
            Case("all volumes listed, and the most memory the driver had",
                 {"ours": listed, "goal": asked(wanted, large.volumes)}, {"goal": "what is asked for"},
                 [Goal(name, unit, "goal", "<=", 1.0) for name, unit, _ in wanted]),
            Case("10,000 nodes, one volume placed",
                 {"ours": placed, "goal": asked([("place", "ms", PLACE_MS)], 10000)},
                 {"goal": "what is asked for"}, [Goal("place", "ms", "goal", "<=", 1.0)])]
