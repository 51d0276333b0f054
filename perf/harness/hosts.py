# SPDX-License-Identifier: Apache-2.0
"""The hosts a suite runs on: network namespaces of this machine, or others by ssh.

A command is run on a host by a shell there that has our end of a pipe as its
standard input. When that ends, because it was asked to, because perf/run was
killed, or because the network is gone, the shell ends the command. A second
such shell keeps the host's folder, and takes away what is left of it.
"""
import contextlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import time

from harness.scratch import BUILD, CannotRun, Failed, built, wait_for

TIMEOUT_S = 120
GRACE_S = 10       # for a process that was asked to end
ANSWER_S = 10      # for a host's first word

# $1 is its log, or nothing where its output is wanted; $2 is GRACE_S.
KEEP = """
exec 3<&0 0</dev/null
log=$1 grace=$2; shift 2
if [ -n "$log" ]; then setsid "$@" 3<&- >"$log" 2>&1 & else setsid "$@" 3<&- & fi
pid=$!
[ -z "$log" ] || echo $pid
(
	while read -r _ <&3; do :; done
	# The shell that waits ends this one as soon as the first process has ended.
	trap '' TERM
	kill -TERM -$pid $pid
	while [ $((grace -= 1)) -ge 0 ] && kill -0 $pid; do sleep 0.1; done
	kill -KILL -$pid
) >/dev/null 2>&1 &
watch=$!
exec >/dev/null 3<&-
wait $pid
rc=$?
kill $watch
exit $rc
"""

# The folder's name is in the command of whatever is told to work in it. KEEP's shells
# are among these, and end what they keep first: $3 tenths of a second are for that.
FOLDER = """
folder=$(mktemp -d "$1/$2.XXXXXX") || exit 1
echo "$folder"
trap '' INT TERM HUP
while read -r _; do :; done
# By a pipe, for grep is not one of them.
theirs() { echo "$folder/" | grep -lsF -f - /proc/[0-9]*/cmdline; }
tries=0
while theirs >/dev/null && [ $((tries += 1)) -le "$3" ]; do sleep 0.1; done
for process in $(theirs); do
	pid=${process#/proc/}
	kill -KILL ${pid%/cmdline}
done
tries=0
while point=$(awk -v at="$folder/" 'index($2, at) == 1 {p = $2} END {print p}' /proc/mounts)
	[ -n "$point" ] && [ $((tries += 1)) -le 1000 ]; do
	umount "$point" || umount -l "$point" || break
done
losetup -nlO NAME,BACK-FILE | awk -v at="$folder/" 'index($2, at) == 1 {print $1}' |
	xargs -r losetup -d
rm -rf --one-file-system "$folder"
"""

# Of processes and all that they started, in seconds: those that ended, too.
CPU = """
total=0 todo=$*
while set -- $todo; [ $# -gt 0 ]; do
	todo=
	for pid; do
		read -r line 2>/dev/null </proc/$pid/stat || continue
		set -- ${line##*) }
		total=$((total + ${12} + ${13} + ${14} + ${15}))
		todo="$todo $(cat /proc/$pid/task/*/children 2>/dev/null)"
	done
done
echo "$total $(getconf CLK_TCK)"
"""

FACTS = """
uname -r
sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1
nproc
findmnt -no SOURCE,FSTYPE -T "$1" | tr -s ' '
"""


class Running:
    """A process on a host, until the suite ends."""

    def __init__(self, host, argv, log):
        self.host, self.name, self.log = host, os.path.basename(argv[0]), log
        self.process, self.pipe = host.spawn(argv, log, subprocess.PIPE)
        word = self.process.stdout.readline().strip()
        if not word:
            self.stop()
            raise Failed(f"{host.name}: {self.name}: "
                         f"{self.process.stderr.read().strip()[-600:]}")
        self.pid = int(word)

    def alive(self):
        if self.process.poll() is not None:
            said = self.host.run(["tail", "-c", "600", self.log]).strip()
            raise Failed(f"{self.host.name}: {self.name} ended with "
                         f"{self.process.returncode}: {said}")
        return True

    def cpu_seconds(self):
        """Its processor time and that of what it started, in steps of 10 ms."""
        return self.host.cpu_seconds([self.pid])

    def signal(self, name):
        self.host.run(["kill", "-" + name, str(self.pid)])

    def ended(self):
        """Waits until it has: after a signal that ends it."""
        self.process.wait(TIMEOUT_S)

    def stop(self):
        _end(self.process, self.pipe)


def _end(process, pipe):
    if pipe.done:
        return
    pipe.close()
    try:
        process.wait(GRACE_S + 5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class _Pipe:
    """The end of a pipe that is held."""

    def __init__(self):
        self.read, self.write, self.done = *os.pipe(), False

    def close(self):
        if not self.done:
            os.close(self.write)
        self.done = True


class Host:
    """One that answers."""

    here = False  # whether its files and programs are this machine's

    def __init__(self, place, name, address, parent):
        self.place, self.name, self.address = place, name, address
        self.link = "unknown"
        self.process, self.pipe = self.spawn_script(
            FOLDER, [parent, "perf-" + place.suite, str(GRACE_S * 10 + 20)])
        place.undo.callback(_end, self.process, self.pipe)
        self.base = self._first_line()

    def _first_line(self):
        line = self.process.stdout.readline().strip()
        if not line:
            raise Failed(f"{self.name}: no folder there: "
                         f"{self.process.stderr.read().strip()[-300:]}")
        return line

    # ---- what differs ----

    def command(self, argv):
        """@argv, as a command of this machine."""
        raise NotImplementedError

    def built(self, path):
        """A program of ours, there."""
        raise NotImplementedError

    # ---- commands ----

    def spawn_script(self, script, words, stdout=subprocess.PIPE):
        """Its standard input ends with the pipe that is returned."""
        pipe = _Pipe()
        try:
            process = subprocess.Popen(
                self.command(["sh", "-c", script, "perf", *words]), stdin=pipe.read,
                stdout=stdout, stderr=subprocess.PIPE, text=True, errors="replace",
                start_new_session=True)
        except OSError as e:
            pipe.close()
            raise Failed(f"{self.name}: {e}") from e
        finally:
            os.close(pipe.read)
        return process, pipe

    def spawn(self, argv, log, stdout):
        return self.spawn_script(KEEP, [log or "", str(GRACE_S * 10), *argv], stdout)

    def run(self, argv, timeout=TIMEOUT_S):
        """To the end; its output. Failed() with what it said."""
        process, pipe = self.spawn(argv, None, subprocess.PIPE)
        said = f"{self.name}: {shlex.join(argv)}"
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired as e:
            raise Failed(f"{said}: not within {timeout} s") from e
        finally:
            _end(process, pipe)
        if process.returncode != 0:
            raise Failed(f"{said[:300]}: exit {process.returncode}: "
                         f"{(err or out).strip()[-600:]}")
        return out

    def script(self, text, *words, timeout=TIMEOUT_S):
        """The same of a shell script; @words are its $1, $2..."""
        return self.run(["sh", "-c", text, "perf", *words], timeout)

    def start(self, argv, log):
        """A server until the suite ends; @log is its file's name in the host's folder."""
        server = Running(self, argv, self.path(log))
        self.place.undo.callback(server.stop)
        return server

    def cpu_seconds(self, pids):
        ticks, hertz = self.script(CPU, *map(str, pids)).split()
        return int(ticks) / int(hertz)

    def has(self, program):
        with contextlib.suppress(Failed):
            return bool(self.script('command -v "$1"', program))
        return False

    def need(self, *programs):
        for program in programs:
            if not self.has(program):
                raise CannotRun(f"{self.name} needs {program}; make deps installs it")

    def need_root(self):
        if self.run(["id", "-u"]).strip() != "0":
            raise CannotRun(f"needs root on {self.name}")

    # ---- files ----

    def path(self, name):
        """In the host's folder, which is removed at the end."""
        return os.path.join(self.base, name)

    def folder(self, name):
        path = self.path(name)
        self.run(["mkdir", path])
        return path

    def free(self, path=None):
        """Bytes."""
        blocks, size = self.run(["stat", "-f", "-c", "%a %S", path or self.base]).split()
        return int(blocks) * int(size)

    def write(self, path, text):
        self._pipe(["sh", "-c", 'cat >"$1"', "perf", path], text.encode())

    def put(self, local, remote):
        with open(local, "rb") as f:
            self._pipe(["sh", "-c", 'cat >"$1"', "perf", remote], f.read())
        self.run(["chmod", f"{os.stat(local).st_mode & 0o777:o}", remote])

    def get(self, remote, local):
        with open(local, "wb") as f:
            f.write(self._pipe(["cat", remote]))

    def _pipe(self, argv, data=b""):
        said = f"{self.name}: {shlex.join(argv)}"
        try:
            done = subprocess.run(self.command(argv), input=data, capture_output=True,
                                  check=False, timeout=TIMEOUT_S)
        except (OSError, subprocess.TimeoutExpired) as e:
            raise Failed(f"{said}: {e}") from e
        if done.returncode != 0:
            raise Failed(f"{said}: {done.stderr.decode(errors='replace').strip()[-600:]}")
        return done.stdout

    # ---- mounts ----

    def mount(self, argv, point):
        self.unmount_later(point)
        self.run([*argv, point])

    def unmount_later(self, point):
        # The first may find it busy, for a moment.
        self.later("""
            for lazy in "" "" -l; do
                mountpoint -q "$1" || exit 0
                umount $lazy "$1" || sleep 0.3
            done""", point)

    def later(self, script, *words):
        """To be done when the suite ends, whatever comes of it."""
        def undo():
            with contextlib.suppress(Failed):
                self.script(script, *words)
        self.place.undo.callback(undo)

    # ---- facts ----

    def facts(self):
        kernel, cpu, cores, disk = self.script(FACTS, self.base).strip("\n").split("\n")
        return {"name": self.name, "kernel": kernel, "cpu": cpu, "cores": int(cores),
                "disk": disk, "link": self.link}


# ---- namespaces ----

class _Namespace(Host):
    here = True

    def __init__(self, place, name, address):
        # The namespace lives as long as its first process.
        self.holder = None
        super().__init__(place, name, address, place.path)
        self.run(["ip", "link", "show"])  # or say why not
        holder = self.start(["unshare", "--net", "sleep", "infinity"], "namespace.log")
        mine = os.readlink("/proc/self/ns/net")
        wait_for(f"a network namespace for {name}", lambda: holder.alive() and
                 os.readlink(f"/proc/{holder.pid}/ns/net") != mine)
        self.holder = holder
        self.run(["ip", "link", "set", "lo", "up"])

    def command(self, argv):
        if not self.holder:
            return argv
        return ["nsenter", f"--net=/proc/{self.holder.pid}/ns/net", "--", *argv]

    def built(self, path):
        return built(path)


class Namespaces:
    """@count hosts, each a network namespace with one link to a bridge.
    Their processes and mounts are this machine's.

    @mbit      bandwidth of each link, each way
    @delay_ms  added to each round trip between two of them
    """

    def __init__(self, place, count, mbit=None, delay_ms=None):
        if os.geteuid() != 0:
            raise CannotRun("needs root")
        self.skipped = []  # [what, why]
        self.switch = _Namespace(place, "switch", None)
        self.switch.run(["ip", "link", "add", "br0", "type", "bridge"])
        self.switch.run(["ip", "link", "set", "br0", "up"])
        self.hosts = [self._host(place, i + 1) for i in range(count)]
        self._shape(mbit, delay_ms)

    def _host(self, place, number):
        host = _Namespace(place, f"host{number}", f"10.77.{number >> 8}.{number & 255}")
        port = f"port{number}"
        self.switch.run(["ip", "link", "add", port, "type", "veth", "peer", "name", "eth0",
                         "netns", str(host.holder.pid)])
        self.switch.run(["ip", "link", "set", port, "master", "br0", "up"])
        host.run(["ip", "address", "add", host.address + "/16", "dev", "eth0"])
        host.run(["ip", "link", "set", "eth0", "up"])
        return host

    def _shape(self, mbit, delay_ms):
        said = []
        if delay_ms and self._discipline("the links' delay", lambda _host: [
                "root", "handle", "1:", "netem", "delay", f"{delay_ms / 2:g}ms",
                "limit", "100000"], (self.hosts, [])):
            said.append(f"{delay_ms:g} ms a round trip")
        # A burst of what comes in 1 ms, and no less than the kernel hands over at once.
        burst = max(int((mbit or 0) * 125), 128 << 10)
        where = ["parent", "1:"] if said else ["root"]
        if mbit and self._discipline("the links' bandwidth", lambda host: [
                *(where if host else ["root"]), "tbf", "rate", f"{mbit:g}mbit", "burst",
                str(burst), "latency", "50ms"], (self.hosts, self.hosts)):
            said.insert(0, f"{mbit:g} Mbit/s")
        for host in self.hosts:
            host.link = "veth, " + (", ".join(said) or "not limited")

    def _discipline(self, what, words, both):
        """For what the first of @both send, and what the switch sends to the second."""
        try:
            for host in both[0]:
                host.run(["tc", "qdisc", "add", "dev", "eth0", *words(host)])
            for host in both[1]:
                self.switch.run(["tc", "qdisc", "add", "dev", "port" + host.name[4:],
                                 *words(None)])
        except Failed as e:
            self.skipped.append([what, f"tc can't set it: {str(e).rsplit(': ', 1)[1]}"])
            return False
        return True


# ---- other machines ----

class _Remote(Host):
    def __init__(self, place, word, controls):
        name, _, folder = word.partition(":")
        self.target, self.copied = name, set()
        self.ssh = [*shlex.split(os.environ.get("PERF_SSH", "ssh")), "-o", "BatchMode=yes",
                    "-o", f"ConnectTimeout={ANSWER_S}", "-o", "ServerAliveInterval=5",
                    "-o", "ServerAliveCountMax=4", "-o", f"ControlPath={controls}/%C"]
        # The first connection carries those of all later commands.
        self.first = ["-o", "ControlMaster=yes"]
        super().__init__(place, name, None, folder or "/var/tmp")
        self.first = []
        self.address = self.script("echo $SSH_CONNECTION").split()[2]
        self.link = self.script(
            'dev=$(ip -o addr show | awk -v a="$1" \'index($4, a "/") == 1 {print $2}\')\n'
            'echo "$dev, $(cat /sys/class/net/$dev/speed 2>/dev/null || echo unknown) Mbit/s"',
            self.address).strip()

    def _first_line(self):
        try:
            return super()._first_line()
        except Failed as e:
            raise Failed(f"{self.target} does not answer: {str(e).split(': ', 2)[2]}") from e

    def command(self, argv):
        return [*self.ssh, *self.first, self.target, "--", shlex.join(argv)]

    def built(self, path):
        """Copied there, with what lies beside it: programs of ours start each other."""
        built(path)
        folder = os.path.dirname(path)
        there = self.path("built/" + folder)
        if folder not in self.copied:
            names = sorted(name for name in os.listdir(os.path.join(BUILD, folder))
                           if folder == "bin" or name == os.path.basename(path))
            self.run(["mkdir", "-p", there])
            for name in names:
                self.put(os.path.join(BUILD, folder, name), os.path.join(there, name))
            if folder == "bin":
                self.copied.add(folder)
        program = os.path.join(there, os.path.basename(path))
        missing = self.script('ldd "$1" | sed -n "s/ => not found//p"', program).split()
        if missing:
            raise CannotRun(f"{self.name}: {path} needs {' '.join(missing)} there; "
                            "tests/deps run build installs it")
        return program


class Ssh:
    """The machines of @words, each a name that ssh knows (user@host, or of its
    configuration) and, after a colon, a folder on the disk to be measured.
    $PERF_SSH is the command instead of "ssh"; it has to need no password."""

    def __init__(self, place, words):
        if not shutil.which("ssh"):
            raise CannotRun("needs ssh")
        self.skipped = []
        # A path short enough for a socket's.
        controls = tempfile.mkdtemp(prefix="perf-ssh.")
        place.undo.callback(shutil.rmtree, controls, ignore_errors=True)
        self.hosts = [_Remote(place, word, controls) for word in words]


def distance_us(host, other, count=200):
    """The median round trip between two hosts: one byte by TCP, there and back."""
    script = os.path.join(os.path.dirname(__file__), "pingpong.py")
    there = [host.path("pingpong.py"), other.path("pingpong.py")]
    for one, path in zip((host, other), there):
        one.put(script, path)
    log = f"pingpong-{time.monotonic_ns()}.log"
    server = Running(other, ["python3", there[1], "serve", other.address], other.path(log))
    try:
        wait_for("ping-pong is served", lambda: server.alive() and
                 re.search(r"\d", other.script('cat "$1" 2>/dev/null || :', server.log)))
        port = other.run(["cat", server.log]).strip()
        return float(host.run(["python3", there[0], "ask", other.address, port, str(count)]))
    finally:
        server.stop()
