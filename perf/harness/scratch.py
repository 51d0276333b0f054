# SPDX-License-Identifier: Apache-2.0
"""A place for one suite's run, and the undoing of all that it sets up."""
import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time

from harness.machine import TOP

BUILD = os.path.join(TOP, os.environ.get("BUILD", "build"))
TICK = os.sysconf("SC_CLK_TCK")
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

# A server is at rest when it used less than this between two looks.
CPU_LOOK_S, CPU_LOOKS, CPU_REST_S = 0.02, 250, 0.002


class Failed(Exception):
    """A measurement went wrong: exit 1."""


class CannotRun(Exception):
    """Something that the suite needs is not to be had here: a skip."""


def run(command, **more):
    """Run to the end; its output. Failed() with what it said."""
    try:
        done = subprocess.run(command, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, check=False, **more)
    except (OSError, subprocess.TimeoutExpired) as e:
        raise Failed(f"{shlex.join(command)}: {e}") from e
    if done.returncode != 0:
        raise Failed(f"{shlex.join(command)}: exit {done.returncode}: "
                     f"{(done.stderr or done.stdout).strip()[-600:]}")
    return done.stdout


def need(*programs):
    for program in programs:
        if not shutil.which(program):
            raise CannotRun(f"needs {program}; make deps installs it")


def built(path):
    """A program of ours, from the build folder."""
    whole = os.path.join(BUILD, path)
    if not os.access(whole, os.X_OK):
        raise CannotRun(f"needs {whole}; run make")
    return whole


def wait_for(what, condition, seconds=10):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise Failed(f"{what}: not within {seconds} s")
        time.sleep(0.01)


def _process_clock(pid):
    """clock_getcpuclockid(3), which Python lacks: CPUCLOCK_SCHED of a process."""
    return (~pid << 3) | 2


class Server:
    """A process that runs until the suite ends; dies with perf/run."""

    def __init__(self, command, log):
        self.name = os.path.basename(command[0])
        self.log = log
        with open(log, "wb") as out:
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL"] + command,
                stdin=subprocess.DEVNULL, stdout=out, stderr=out)

    def alive(self):
        if self.process.poll() is not None:
            with open(self.log, encoding="utf-8", errors="replace") as f:
                raise Failed(f"{self.name} ended with {self.process.returncode}: "
                             f"{f.read().strip()[-600:]}")
        return True

    def cpu_s(self):
        """Processor time so far: ended threads, kernel workers and children
        included; those that live are looked for. It is read when nothing more
        is done, because what a client leaves behind is still to be closed, and
        who ends while we look would be counted by nobody."""
        seen = self._cpu_now()
        for _ in range(CPU_LOOKS):
            time.sleep(CPU_LOOK_S)
            now = self._cpu_now()
            if now and seen and now[1] == seen[1] and now[0] - seen[0] < CPU_REST_S:
                return now[0]
            seen = now or seen
        raise Failed(f"{self.name} does not come to rest")

    def _cpu_now(self):
        """Seconds, and of whom; None when one of them ended meanwhile."""
        total, todo, pids = 0, [self.process.pid], []
        while todo:
            pid = todo.pop()
            try:
                with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
                    fields = f.read().rsplit(")", 1)[1].split()
                with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
                    todo += f.read().split()
                total += time.clock_gettime(_process_clock(int(pid)))
            except OSError:
                return None
            pids.append(pid)
            total += sum(int(field) for field in fields[13:15]) / TICK
        return total, pids

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


@contextlib.contextmanager
def not_interrupted():
    """A signal that would end us does so afterwards."""
    came = []
    before = {number: signal.signal(number, lambda number, frame: came.append((number, frame)))
              for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came and callable(before[came[0][0]]):
            before[came[0][0]](*came[0])


class Scratch:
    """Use as a context; what was set up last is undone first."""

    def __init__(self, suite, options=None):
        self.suite = suite
        self.options = options  # of perf/run, for the suites that have their own
        self.undo = contextlib.ExitStack()
        self.hosts = []         # where it runs, when that is not just here
        self.skipped = []       # [what, why]: parts of it that can't run here

    def __enter__(self):
        root = os.path.join(BUILD, "perf")
        with not_interrupted():
            try:
                os.makedirs(root, exist_ok=True)
                self.path = tempfile.mkdtemp(prefix=self.suite + ".", dir=root)
            except OSError as e:
                raise CannotRun(f"no folder in {root}: {e.strerror}") from e
            self.undo.callback(shutil.rmtree, self.path)
        return self

    def __exit__(self, *problem):
        with not_interrupted():
            return self.undo.__exit__(*problem)

    def skip(self, what, why):
        """To be told: a part of the suite that can't run here."""
        self.skipped.append([what, why])

    def file(self, name):
        return os.path.join(self.path, name)

    def folder(self, name):
        path = self.file(name)
        os.mkdir(path)
        return path

    def server(self, name, command, ready):
        """Start it and wait until ready() is true."""
        server = Server(command, self.file(name + ".log"))
        self.undo.callback(server.stop)
        wait_for(f"{name} comes up", lambda: server.alive() and ready())
        return server

    def mount(self, command, path):
        self.unmount_later(path)
        run(command + [path])

    def unmount_later(self, path):
        def unmount():
            for lazy in ([], [], ["-l"]):
                if not os.path.ismount(path):
                    return
                subprocess.run(["umount"] + lazy + [path], check=False,
                               capture_output=True)
                time.sleep(0.2 if os.path.ismount(path) else 0)
        self.undo.callback(unmount)

    def loop_device(self, path):
        def detach():
            for device in run(["losetup", "-n", "-O", "NAME", "-j", path]).split():
                run(["losetup", "-d", device])
        self.undo.callback(detach)
        return run(["losetup", "--direct-io=on", "--show", "-f", path]).strip()
