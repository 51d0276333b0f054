# SPDX-License-Identifier: Apache-2.0
"""The calls of a CSI volume's life, and what the idle driver costs.

Three nodes (a blockd each, on this machine) and one driver for all; a client
that keeps its connection (tests/csi/life_main.c) makes a volume of three
extents, stages and publishes it once so that it has its file systems, does
both again, and deletes it; then 64 volumes at once. There is no peer: the
other side of each row is what is asked for.
"""
import json
import os
import socket
import time

from harness.measure import Case, Goal, Sample
from harness.scratch import CannotRun, built, need, run

ROUNDS = (3, 7)  # quick, full
PARALLEL = 64
IDLE_S = 5
SETTLE_S = 2  # after the last call: csi/heap_trim.h

# The goals: metric, unit, at most.
CALLS = [("create", "ms", 50), ("use", "ms", 1000), ("delete", "ms", 200)]
IDLE = [("rss", "MiB", 24), ("cpu", "ms/s", 1)]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def start_node(place, name):
    port, folder = free_port(), place.folder(name)
    for part in ("run", "state", "pool"):
        os.mkdir(os.path.join(folder, part))
    control = f"unix:{folder}/run/blockd.sock"
    conf = os.path.join(folder, "blockd.conf")
    with open(conf, "w", encoding="utf-8"):
        pass
    place.server(f"blockd-{name}", [
        built("bin/blockd"), "--config", conf, "--node-name", name,
        "--pool", f"main={folder}/pool", "--state-dir", f"{folder}/state",
        "--run-dir", f"{folder}/run", "--control", control,
        "--listen", f"tcp:127.0.0.1:{port}"],
        lambda: os.path.exists(f"{folder}/run/blockd.sock"))
    trib = os.path.join(place.path, "trib.conf")
    with open(trib, "w", encoding="utf-8") as f:
        f.write(f"store = local:{place.path}/records.db\nnode = host1\n"
                f"run-dir = {place.path}/host1/run\n")
    run([built("bin/trib"), "node", "add", name, "--control", control,
         "--data", f"127.0.0.1:{port}", "--quiet"],
        env={**os.environ, "TRIB_CONFIG": trib})


def start_driver(place):
    endpoint = f"{place.path}/host1/csi.sock"
    driver = place.server("trib-csi", [
        built("bin/trib-csi"), "--endpoint", f"unix://{endpoint}", "--node", "host1",
        "--store", f"local:{place.path}/records.db", "--run-dir", f"{place.path}/host1/run"],
        lambda: os.path.exists(endpoint))
    return driver


def resident_mib(driver):
    with open(f"/proc/{driver.process.pid}/status", encoding="ascii") as f:
        return next(int(line.split()[1]) / 1024 for line in f if line.startswith("VmRSS"))


def asked(metrics, work):
    return lambda number: Sample(work, {name: at_most for name, _, at_most in metrics})


def ran_ms(driver):
    """What its threads have used so far. (In ticks of 10 ms an idle process uses none or too much.)"""
    folder, total = f"/proc/{driver.process.pid}/task", 0
    for task in os.listdir(folder):
        try:
            with open(f"{folder}/{task}/schedstat", encoding="ascii") as f:
                total += int(f.read().split()[0])
        except FileNotFoundError:
            pass  # it has ended
    return total / 1e6


def case(row, ours, metrics, work):
    return Case(row, {"ours": ours, "goal": asked(metrics, work)}, {"goal": "what is asked for"},
                [Goal(name, unit, "goal", "<=", 1.0) for name, unit, _ in metrics])


def setup(place, quick):
    need("mkfs.ext4", "setpriv", "losetup")
    if os.geteuid() != 0:
        raise CannotRun("needs root")
    client = built("test/tests/csi/life_main")
    for name in ("host1", "host2", "host3"):
        start_node(place, name)
    driver = start_driver(place)
    times = 5 if quick else 20
    work = (times, PARALLEL)

    def calls(_number):
        driver.alive()
        found = json.loads(run([client, place.path, str(times), str(PARALLEL)], timeout=600))
        return Sample(work, found)

    def idle(_number):
        time.sleep(SETTLE_S)
        before = ran_ms(driver)
        time.sleep(IDLE_S)
        used = ran_ms(driver) - before
        return Sample(IDLE_S, {"rss": resident_mib(driver), "cpu": used / IDLE_S})

    return [case("driver that was just started, idle", idle, IDLE, IDLE_S),
            case("volume of 3 extents", calls,
                 CALLS + [("parallel create", "ms", 64 * 50), ("parallel publish", "ms", 64 * 50)], work),
            case("driver after that, idle", idle, IDLE, IDLE_S)]
