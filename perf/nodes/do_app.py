#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What people run on volumes, once, in one directory, on this host.

    do_app.py prepare INPUTS PARAMETERS    make what applications read
    do_app.py NAME    DIRECTORY PARAMETERS run one application there

PARAMETERS is JSON: "inputs", "programs" (name -> path) and what the
application's function names. Prints JSON: "work", equal wherever the same was
done and the result was right, "figures", and for some "latency" in us.
Needs only Python's own library, so that any host can run it. Each application
works in a folder of its own, which is gone when it ends; what is timed begins
and ends with the machine's own caches warm, after a sync().
"""
import contextlib
import hashlib
import json
import multiprocessing
import os
import random
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time

TREE_SEED, LAYER_SEED = 1, 2
SEARCHED = "tributary_needle"  # in one file of NEEDLES
NEEDLES = 50


class Wrong(Exception):
    """The application failed, or its result is not what it must be."""


def check(condition, what):
    if not condition:
        raise Wrong(what)


def run(argv, **more):
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=False, **more)
    if done.returncode != 0:
        raise Wrong(f"{argv[0]}: exit {done.returncode}: "
                    f"{(done.stderr or done.stdout).strip()[-400:]}")
    return done.stdout


class Clock:
    """Seconds of named steps."""

    def __init__(self):
        self.figures = {}

    @contextlib.contextmanager
    def step(self, name):
        start = time.monotonic()
        yield
        self.figures[name] = time.monotonic() - start


# ---- what is made beforehand ----

def text(rng, size):
    """Lines of words, @size bytes; words repeat as those of source code do."""
    words = [b"static", b"int", b"return", b"struct", b"if", b"error", b"offset",
             b"buffer", b"length", b"page", b"for", b"0", b"NULL", b"flags"]
    block = b" ".join(rng.choice(words) for _ in range(60)) + b";\n"
    at = rng.randrange(len(block))
    return (block[at:] + block * (size // len(block) + 1))[:size]


def tree_sizes(rng):
    """Of source files: half are below 5 KiB, a few are of some hundred."""
    return min(int(rng.lognormvariate(8.5, 1.35)), 512 << 10)


def make_tree(folder, files):
    """A tree like that of a kernel: some 14 files in a directory, three deep."""
    rng = random.Random(TREE_SEED)
    for i in range(files):
        group = i // 14
        at = os.path.join(folder, f"part{group % 23}", f"driver{group // 23 % 17}",
                          f"chip{group}")
        if i % 14 == 0:
            os.makedirs(at)
        data = text(rng, tree_sizes(rng))
        if i % NEEDLES == 0:
            data += f"/* {SEARCHED} */\n".encode()
        with open(os.path.join(at, f"source{i}.c"), "wb") as f:
            f.write(data)


def make_layers(folder, layers, files):
    """Tar-like lists of an image's layers, and what they are together.

    The first has most; each later one overwrites, adds, removes (a whiteout),
    replaces a directory (an opaque one) and links."""
    rng = random.Random(LAYER_SEED)
    model = {}
    for number in range(layers):
        entries = []
        count = files if number == 0 else files // 10
        for i in range(count):
            old = sorted(n for n in model if model[n] != "dir")[::97] if number else []
            if old and i % 3 == 0:
                name = rng.choice(old)
            else:
                name = f"usr/lib{i % 7}/pack{number}-{i % 40}/file{i}"
            size = min(int(rng.lognormvariate(7.5, 1.5)), 256 << 10)
            entries.append(["file", name, size, rng.randrange(1 << 30)])
            model[name] = [size, entries[-1][3]]
        names = sorted(model)
        if number:
            for name in rng.sample(names, min(10, len(names))):
                entries.append(["whiteout", name])
                model.pop(name, None)
            gone = os.path.dirname(rng.choice(sorted(model)))
            entries.append(["opaque", gone])
            for name in [n for n in model if n.startswith(gone + "/")]:
                del model[name]
        for i, name in enumerate(rng.sample(sorted(model), min(20, len(model)))):
            link = f"usr/share/links{number}/link{i}"
            entries.append(["link", link, name])
            model[link] = model[name]
        with open(os.path.join(folder, f"layer{number}"), "w", encoding="ascii") as f:
            json.dump(entries, f)
    with open(os.path.join(folder, "model"), "w", encoding="ascii") as f:
        json.dump(model, f)


def tree_digest(folder):
    """Of names, contents and kinds; of ".git" nothing."""
    digest = hashlib.blake2b(digest_size=16)
    for at, folders, files in os.walk(folder):
        folders[:] = sorted(f for f in folders if f != ".git")
        for name in sorted(files):
            path = os.path.join(at, name)
            digest.update(os.path.relpath(path, folder).encode() + b"\0")
            with open(path, "rb") as f:
                digest.update(hashlib.blake2b(f.read(), digest_size=16).digest())
    return digest.hexdigest()


def prepare(inputs, tree_files, git_files, layers, layer_files):
    for name, files in (("tree", tree_files), ("repository", git_files)):
        make_tree(os.path.join(inputs, name), files)
    digests = {name: tree_digest(os.path.join(inputs, name))
               for name in ("tree", "repository")}
    run(["tar", "--sort=name", "-cf", "tree.tar", "tree"], cwd=inputs)
    shutil.rmtree(os.path.join(inputs, "tree"))
    git = ["git", "-c", "user.name=perf", "-c", "user.email=perf@example.org", "-C",
           os.path.join(inputs, "repository")]
    run(git[:1] + ["init", "-q", os.path.join(inputs, "repository")])
    run(git + ["add", "."])
    run(git + ["commit", "-q", "-m", "perf"])
    os.mkdir(os.path.join(inputs, "layers"))
    make_layers(os.path.join(inputs, "layers"), layers, layer_files)
    with open(os.path.join(inputs, "digests"), "w", encoding="ascii") as f:
        json.dump(digests, f)
    return {"work": digests, "figures": {}}


def digest_of(inputs, name):
    with open(os.path.join(inputs, "digests"), encoding="ascii") as f:
        return json.load(f)[name]


# ---- the applications ----

def tree(folder, inputs, files, programs):
    clock, path = Clock(), os.path.join(folder, "tree")
    with clock.step("unpack"):
        run(["tar", "-xf", os.path.join(inputs, "tree.tar")], cwd=folder)
    search = ([programs["rg"], "--no-config", "-uuu", "-c", SEARCHED] if programs.get("rg")
              else ["grep", "-rc", SEARCHED])
    with clock.step("search"):
        said = run(search + ["tree"], cwd=folder)
    found = sum(int(line.rsplit(":", 1)[1]) for line in said.splitlines())
    check(found == -(-files // NEEDLES), f"the search finds {found} files")
    with clock.step("archive"):
        # A pipe: tar reads nothing when it writes to /dev/null.
        with subprocess.Popen(["tar", "--sort=name", "-cf", "-", "tree"], cwd=folder,
                              stdout=subprocess.PIPE) as tar:
            length = 0
            while got := tar.stdout.read(1 << 20):
                length += len(got)
        check(tar.returncode == 0, "tar fails")
    check(length == os.path.getsize(os.path.join(inputs, "tree.tar")),
          f"the archive has {length} bytes")
    check(tree_digest(path) == digest_of(inputs, "tree"), "the tree is another one")
    with clock.step("remove"):
        run(["rm", "-r", "tree"], cwd=folder)
    check(not os.path.exists(path), "the tree is still there")
    return files, clock.figures


def git(folder, inputs, statuses):
    clock, path = Clock(), os.path.join(folder, "clone")
    with clock.step("clone"):
        run(["git", "clone", "-q", "file://" + os.path.join(inputs, "repository"), path])
    with clock.step("status"):
        for _ in range(statuses):
            said = run(["git", "-C", path, "status", "--porcelain"])
            check(said == "", f"git status says {said[:100]}")
    clock.figures["status"] /= statuses
    check(tree_digest(path) == digest_of(inputs, "repository"), "the clone is another tree")
    run(["git", "-C", path, "fsck", "--no-dangling"])
    return statuses, clock.figures


class Unpacker:
    """Layers over one another, as an image builder unpacks them: each file
    under another name first, then renamed."""

    def __init__(self, root):
        self.root, self.parents = root, set()

    def path(self, name):
        path = os.path.join(self.root, name)
        parent = os.path.dirname(path)
        if parent not in self.parents:
            os.makedirs(parent, exist_ok=True)
            self.parents.add(parent)
        return path

    def file(self, name, size, seed):
        path = self.path(name)
        fd = os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        os.write(fd, content(size, seed))
        os.fchmod(fd, 0o644)
        os.utime(fd, (1_600_000_000, 1_600_000_000))
        os.close(fd)
        os.rename(path + ".new", path)

    def whiteout(self, name):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(self.root, name))

    def opaque(self, name):
        shutil.rmtree(os.path.join(self.root, name), ignore_errors=True)
        self.parents = {p for p in self.parents
                        if not (p + "/").startswith(os.path.join(self.root, name) + "/")}

    def link(self, name, target):
        os.link(os.path.join(self.root, target), self.path(name))


def content(size, seed):
    block = hashlib.blake2b(seed.to_bytes(8, "big")).digest()
    return (block * (size // len(block) + 1))[:size]


def layers(folder, inputs):
    clock, unpacker, count = Clock(), Unpacker(os.path.join(folder, "image")), 0
    todo = []
    for number in range(len(os.listdir(os.path.join(inputs, "layers"))) - 1):
        with open(os.path.join(inputs, "layers", f"layer{number}"), encoding="ascii") as f:
            todo += json.load(f)
    with clock.step("unpack"):
        for kind, *words in todo:
            getattr(unpacker, kind)(*words)
            count += 1
    with open(os.path.join(inputs, "layers", "model"), encoding="ascii") as f:
        model = json.load(f)
    found = set()
    for at, _, names in os.walk(unpacker.root):
        found |= {os.path.relpath(os.path.join(at, name), unpacker.root) for name in names}
    check(found == set(model), f"{len(found ^ set(model))} names differ from the layers'")
    for name, (size, seed) in model.items():
        with open(os.path.join(unpacker.root, name), "rb") as f:
            check(f.read() == content(size, seed), f"{name} has other content")
    with clock.step("remove"):
        shutil.rmtree(unpacker.root)
    return count, clock.figures


def small_step(args):
    """One process's share of one step."""
    step, folder, first, count, size = args
    data = content(size, first)
    if step == "list":
        with os.scandir(folder) as entries:
            return sum(1 for entry in entries if entry.stat().st_size == size)
    if step == "make":
        os.mkdir(folder)
    for i in range(count):
        path = f"{folder}/{first + i}"
        if step == "make":
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            os.write(fd, data)
            os.close(fd)
        elif step == "read":
            fd = os.open(path, os.O_RDONLY)
            if os.read(fd, size + 1) != data:
                return i
            os.close(fd)
        else:
            os.unlink(path)
    if step == "remove":
        os.rmdir(folder)
    return count


def small(folder, files, processes, size):
    """Each process has a folder; a step begins when all have ended the last."""
    share, figures = files // processes, {}
    # The workers end as the pool tells them, so not by our handler.
    with multiprocessing.Pool(processes, signal.signal, (signal.SIGTERM, signal.SIG_DFL)) as pool:
        for step in ("make", "list", "read", "remove"):
            start = time.monotonic()
            done = pool.map(small_step, [(step, f"{folder}/of{p}", p * share, share, size)
                                         for p in range(processes)], chunksize=1)
            figures[step] = share * processes / (time.monotonic() - start)
            check(done == [share] * processes, f"{step}: {done}")
    check(os.listdir(folder) == [], "files are left")
    return (share, processes), figures


def append(folder, lines):
    path = os.path.join(folder, "log")
    start = time.monotonic()
    for i in range(lines):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.write(fd, b"line %d of a log\n" % i)
        os.close(fd)
    took = time.monotonic() - start
    with open(path, "rb") as f:
        check(f.read() == b"".join(b"line %d of a log\n" % i for i in range(lines)),
              "the log has other lines")
    return lines, {"append": lines / took}


def sqlite(folder, journal, inserts, queries):
    """Each insert is a transaction that is on the disk; each query one of its own."""
    path = os.path.join(folder, "db")
    db = sqlite3.connect(path, isolation_level=None)
    check(db.execute(f"pragma journal_mode={journal}").fetchone() == (journal,),
          f"no journal mode {journal}")
    db.execute("pragma synchronous=full")
    db.execute("create table t (id integer primary key, k integer, v text)")
    db.execute("create index t_k on t (k)")
    # Some rows to look among.
    db.execute("begin")
    db.executemany("insert into t (k, v) values (?, ?)",
                   ((i * 7919 % 20011, f"value {i}") for i in range(20_000)))
    db.execute("commit")
    figures = {}
    start = time.monotonic()
    for i in range(inserts):
        db.execute("insert into t (k, v) values (?, ?)", (i, f"new {i}"))
    figures["insert"] = inserts / (time.monotonic() - start)
    rng, start = random.Random(1), time.monotonic()
    for _ in range(queries):
        row = rng.randrange(20_000)
        got = db.execute("select v from t where id = ?", (row + 1,)).fetchone()
        check(got == (f"value {row}",), f"row {row} has {got}")
    figures["query"] = queries / (time.monotonic() - start)
    count = db.execute("select count(*) from t").fetchone()[0]
    check(count == 20_000 + inserts, f"{count} rows")
    check(db.execute("pragma integrity_check").fetchone() == ("ok",), "the database is damaged")
    db.close()
    return (journal, count, queries), figures


# fio's names of percentiles, and those of a Sample.
PERCENTILES = {"1.000000": "p1", "5.000000": "p5", "50.000000": "p50", "90.000000": "p90",
               "99.000000": "p99", "99.900000": "p99.9"}


def etcd_disk(folder, mib):
    """etcd's documentation: sequential writes of 2,300 bytes, fdatasync after each."""
    out = json.loads(run(["fio", "--name=etcd", "--rw=write", "--ioengine=sync", "--fdatasync=1",
                          f"--directory={folder}", f"--size={mib}m", "--bs=2300",
                          "--percentile_list=" + ":".join(p.rstrip("0").rstrip(".")
                                                          for p in PERCENTILES),
                          "--output-format=json"], cwd=folder))
    job = out["jobs"][0]
    sync, count = job["sync"]["lat_ns"], job["write"]["total_ios"]
    check(count == mib * (1 << 20) // 2300 and job["error"] == 0, f"fio made {count} writes")
    latency = {name: sync["percentile"][at] / 1e3 for at, name in PERCENTILES.items()}
    latency["max"] = sync["max"] / 1e3
    return count, {"mean": sync["mean"] / 1e3, "p99": latency["p99"]}, latency


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@contextlib.contextmanager
def server(argv, log, **more):
    with open(log, "wb") as out:
        process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL"] + argv,
                                   stdin=subprocess.DEVNULL, stdout=out, stderr=out, **more)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_for(process, log, ready):
    end = time.monotonic() + 60
    while not ready():
        if process.poll() is not None or time.monotonic() > end:
            with open(log, encoding="utf-8", errors="replace") as f:
                raise Wrong(f"a server does not come up: {f.read().strip()[-400:]}")
        time.sleep(0.05)


def succeeds(argv, **more):
    return subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, check=False, **more).returncode == 0


def etcd(folder, programs, load):
    """etcd itself on the directory, and its own check of how it performs (a minute)."""
    client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    control = [programs["etcdctl"], "--endpoints", client]
    env = {**os.environ, "ETCDCTL_API": "3"}
    with tempfile.NamedTemporaryFile(suffix=".log") as log:
        with server([programs["etcd"], "--data-dir", os.path.join(folder, "data"),
                     "--listen-client-urls", client, "--advertise-client-urls", client,
                     "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                     "--initial-cluster", "default=" + peer, "--log-level", "error"],
                    log.name) as process:
            wait_for(process, log.name,
                     lambda: succeeds(control + ["endpoint", "health"], env=env))
            # etcdctl exits with 1 where a goal of its own is missed.
            said = subprocess.run(control + ["check", "perf", "--load", load], env=env,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, check=False).stdout
    rate = re.search(r"Throughput (?:is )?(?:too low: )?(\d+) writes/s", said)
    slowest = re.search(r"Slowest request took(?: too long)?:? ([0-9.]+)s", said)
    deviation = re.search(r"Stddev (?:is )?(?:too high: )?([0-9.]+)s", said)
    check(rate and slowest and deviation, f"etcdctl says {said.strip()[-300:]}")
    return load, {"rate": int(rate.group(1)), "slowest": float(slowest.group(1)) * 1e3,
                  "deviation": float(deviation.group(1)) * 1e3}


class Postgres:
    """A cluster of its own in @folder, run by another user than root."""

    def __init__(self, folder, programs):
        self.bin, self.data = programs["postgres"], os.path.join(folder, "cluster")
        self.library = programs.get("postgres libraries", "")

    def __enter__(self):
        self.run_folder = tempfile.mkdtemp(prefix="perf-pg.", dir="/tmp")
        os.chmod(self.run_folder, 0o777)
        return self

    def __exit__(self, *problem):
        shutil.rmtree(self.run_folder)

    def command(self, program, *words):
        """Folders above that only root may pass must not stop it."""
        return ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
                "--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search",
                "env", "LC_ALL=C", "PGUSER=perf", "PGDATABASE=postgres", "HOME=" + self.run_folder,
                "PGHOST=" + self.run_folder, "LD_LIBRARY_PATH=" + self.library,
                os.path.join(self.bin, program), *words]

    def run(self, program, *words):
        return run(self.command(program, *words), cwd=self.run_folder)

    def make(self):
        os.mkdir(self.data)
        os.chown(self.data, 65534, 65534)
        os.chmod(self.data, 0o700)
        self.run("initdb", "-D", self.data, "-U", "perf", "--auth=trust")

    @contextlib.contextmanager
    def serving(self):
        log = os.path.join(self.run_folder, "log")
        # SIGINT is its fast shutdown.
        with server(self.command("postgres", "-D", self.data, "-c", "listen_addresses=", "-c",
                                 "unix_socket_directories=" + self.run_folder, "-c",
                                 "max_wal_size=1GB", "-c", "checkpoint_timeout=30min"),
                    log, cwd=self.run_folder) as process:
            wait_for(process, log, lambda: succeeds(self.command("pg_isready", "-q")))
            yield

    def ask(self, query):
        return self.run("psql", "-AtqXc", query).strip()

    def bench(self, clients, seconds, *words):
        """Transactions a second, and how many there were."""
        said = self.run("pgbench", "-n", "-c", str(clients), "-j", "2", "-T", str(seconds), *words)
        check("number of failed transactions: 0" in said, f"pgbench says {said[-300:]}")
        return (float(re.search(r"^tps = ([0-9.]+)", said, re.M).group(1)),
                int(re.search(r"actually processed: (\d+)", said).group(1)))


def postgres(folder, programs, scale, clients, seconds):
    clock = Clock()
    with Postgres(folder, programs) as pg:
        with clock.step("initdb"):
            pg.make()
        with pg.serving():
            pg.run("pgbench", "-i", "-q", "-s", str(scale))
            pg.ask("checkpoint")
            clock.figures["tpcb"], done = pg.bench(clients, seconds)
            clock.figures["select"], _ = pg.bench(clients, seconds, "-S")
            found = pg.ask("select (select count(*) from pgbench_history), "
                           "(select count(*) from pgbench_accounts), "
                           "(select sum(abalance) from pgbench_accounts) = "
                           "(select coalesce(sum(delta), 0) from pgbench_history), "
                           "(select sum(bbalance) from pgbench_branches) = "
                           "(select sum(tbalance) from pgbench_tellers)")
            check(found == f"{done}|{100_000 * scale}|t|t",
                  f"after {done} transactions the tables say {found}")
    return (scale, clients, seconds), clock.figures


APPS = (tree, git, layers, small, append, sqlite, etcd_disk, etcd, postgres)


def main():
    name, directory, parameters = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    if name == "prepare":
        json.dump(prepare(directory, **parameters), sys.stdout)
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    app = next(a for a in APPS if a.__name__ == name)
    folder = tempfile.mkdtemp(prefix=f"{name}.", dir=directory)
    os.chmod(folder, 0o755)
    os.sync()
    try:
        work, figures, *latency = app(folder, **parameters)
    except Wrong as e:
        print(f"{name} in {directory}: {e}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    json.dump({"work": work, "figures": figures, "latency": latency[0] if latency else None},
              sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
