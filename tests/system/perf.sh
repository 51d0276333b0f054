#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The benchmark driver, on suites made up here: its verdicts, its check that
# all sides did the same work, its cleaning up.
. "$(dirname "$0")/../lib.sh"
need python3 setpriv
mkdir "$TEST_DIR/perf" "$TEST_DIR/build"
cp -r "$TOP/perf/run" "$TOP/perf/harness" "$TEST_DIR/perf"
mkdir "$TEST_DIR/perf/suites"
perf() { BUILD=$TEST_DIR/build "$TEST_DIR/perf/run" "$@"; }

# suite NAME: its setup() from standard input; side(speed, work) is a side
suite() {
	{
		cat <<-'END'
			from harness.measure import Case, Goal, Sample
			from harness.scratch import CannotRun, Failed

			def side(speed, work=1):
			    return lambda number: Sample(work, {"speed": speed * (2 + number)})

			def case(ours, peer, *goals):
			    return [Case("row", {"ours": ours, "peer": peer}, {"peer": "peer 1.0"},
			                 [Goal("speed", "1/s", "peer", *g) for g in goals])]

			def setup(place, quick):
		END
		sed 's/^/    /'
	} >"$TEST_DIR/perf/suites/$1.py"
}

test_says_by_how_much_each_goal_is_met_or_missed() {
	suite two <<-'END'
		return case(side(12), side(10), (">=", 1.0), (">=", 1.5), ("<=", 2.4), ("<=", 1.0))
	END
	perf two --quick --json "$TEST_DIR/json" >"$TEST_DIR/out"
	grep -q 'met by 20 %$' "$TEST_DIR/out"
	grep -q 'MISSED by 20 %$' "$TEST_DIR/out"
	grep -q 'met by 50 %$' "$TEST_DIR/out"
	grep -qx '4 rows: 2 goals met, 2 missed' "$TEST_DIR/out"
	python3 - "$TEST_DIR/json" <<-'END'
		import json, sys
		whole = json.load(open(sys.argv[1]))
		assert whole["machine"]["cores"] > 0 and whole["machine"]["kernel"]
		row = whole["rows"][0]
		for key in ("suite", "row", "metric", "unit", "ours", "peer", "peer_name",
		            "ratio", "goal", "met", "rounds"):
		    assert key in row, key
		# The median of rounds 0, 1 and 2; the warm-up round -1 is left out.
		assert (row["ours"], row["peer"], row["rounds"]) == (36, 30, 3), row
		assert abs(row["ratio"] - 1.2) < 1e-9 and row["met"] is True
	END
	fails 3 '2 missed' perf two --quick --strict
	perf two --quick --rows 'no such row' | grep -qx '0 rows: 0 goals met, 0 missed'
}

test_what_has_no_goal_is_neither_met_nor_missed() {
	suite calm <<-'END'
		return case(side(12), side(10), (">=",))
	END
	perf calm --quick --strict >"$TEST_DIR/out"
	grep -q '1\.20 .* none$' "$TEST_DIR/out"
	grep -qx '1 rows: 0 goals met, 0 missed' "$TEST_DIR/out"
}

test_a_case_may_have_fewer_rounds_than_its_suite() {
	suite few <<-'END'
		return [Case("row", {"ours": side(12), "peer": side(10)}, {"peer": "peer 1.0"},
		             [Goal("speed", "1/s", "peer", ">=", 1.0)], 2)]
	END
	perf few --rounds 5 --json "$TEST_DIR/json" >/dev/null
	grep -q '"rounds": 2' "$TEST_DIR/json"
	perf few --rounds 1 --json "$TEST_DIR/json" >/dev/null
	grep -q '"rounds": 1' "$TEST_DIR/json"
}

test_a_row_may_be_of_another_side_and_beside_the_best_of_some() {
	suite some <<-'END'
		sides = {"ours": side(30), "ring": side(60), "a": side(10), "b": side(20), "c": side(90)}
		names = {"ring": "by ring", "a": "A", "b": "B", "c": "C", "ours": "ours"}
		return [Case("row", sides, names, [Goal("speed", "1/s", ("a", "b"), ">=", 1.5),
		                                   Goal("speed", "1/s", "ours", ">=", 2.0, side="ring")],
		             warm=False)]
	END
	perf some --rounds 1 >"$TEST_DIR/out"
	grep -q '^  row  .* B .* 1\.50 ' "$TEST_DIR/out"
	grep -q '^  row, by ring  .* ours .* 2\.00 ' "$TEST_DIR/out"
}

test_a_row_is_there_before_the_next_is_measured() {
	local rc=0
	suite steps <<-'END'
		def late(number):
		    with open(place.path + "/../../out") as f:
		        assert " 1.20 " in f.read(), "the first row is not there yet"
		    raise Failed("on purpose")

		return case(side(12), side(10), (">=", 1.0)) + [
		    Case("next", {"ours": late, "peer": side(10)}, {"peer": "peer 1.0"},
		         [Goal("speed", "1/s", "peer", ">=", 1.0)])]
	END
	perf steps --quick >"$TEST_DIR/build/out" 2>"$TEST_DIR/err" || rc=$?
	same $rc 1
	grep -qx '  failed: next: on purpose' "$TEST_DIR/err"
	grep -qx '1 rows: 1 goals met, 0 missed; failed: steps, next' "$TEST_DIR/build/out"
}

test_a_row_that_fails_leaves_the_others() {
	local rc=0
	suite some <<-'END'
		def broken(number):
		    raise Failed("the server ended")
		goals = [Goal("speed", "1/s", "peer", ">=", 1.0)]
		return [Case(row, {"ours": ours, "peer": side(10)}, {"peer": "peer 1.0"}, goals)
		        for row, ours in (("one", side(12)), ("two", broken), ("three", side(12, work=2)),
		                          ("four", side(12)))]
	END
	perf some --rounds 2 --json "$TEST_DIR/json" >"$TEST_DIR/out" 2>"$TEST_DIR/err" || rc=$?
	same $rc 1
	same "$(grep -o '"row": "[a-z]*"' "$TEST_DIR/json" | tr -d '\n')" '"row": "one""row": "four"'
	grep -qx '  failed: two: the server ended' "$TEST_DIR/err"
	grep -q '  failed: three: .*the same work' "$TEST_DIR/err"
	grep -qx '2 rows: 2 goals met, 0 missed; failed: some, two; some, three' "$TEST_DIR/out"
	grep -q '"what": "some, two"' "$TEST_DIR/json"
}

test_no_row_begins_when_its_minutes_are_over() {
	suite slow <<-'END'
		import time
		def long(number):
		    time.sleep(3)
		    return Sample(1, {"speed": 2 + number})
		goals = [Goal("speed", "1/s", "peer", ">=", 1.0)]
		return [Case(row, {"ours": ours, "peer": side(10)}, {"peer": "peer 1.0"}, goals, warm=False,
		             seconds=seconds)
		        for row, ours, seconds in (("one", side(12), -1), ("two", long, 1000),
		                                   ("three", side(12), 1000))]
	END
	# The first has one round, as it says; the second, as the minutes are over.
	perf slow --minutes 0.05 --rounds 500 --json "$TEST_DIR/json" >"$TEST_DIR/out"
	same "$(grep -c '"rounds": 1,' "$TEST_DIR/json")" 2
	same "$(grep -o '"row": "[a-z]*"' "$TEST_DIR/json" | tr -d '\n')" '"row": "one""row": "two"'
	grep -qx '  skipped: what comes after two: 0.05 minutes are over; --minutes gives it more' "$TEST_DIR/out"
	fails 2 'a number above 0' perf slow --minutes 0
}

test_fails_when_the_sides_did_not_do_the_same_work() {
	suite cheat <<-'END'
		return case(side(10, work=1), side(10, work=2), (">=", 1.0))
	END
	fails 1 'did not do the same work' perf cheat --quick
}

test_a_suite_that_cannot_run_here_is_a_skip() {
	suite absent <<-'END'
		raise CannotRun("needs a moon")
	END
	fails 77 'needs a moon' perf absent
	fails 2 "no suite 'nothing'" perf nothing
	fails 2 'at least two' perf absent --hosts one
	fails 2 'names with commas' perf absent --hosts one,-oProxyCommand=x
	fails 2 'is left alone' perf absent --hosts one,two --mbit 100
	fails 2 'above 0' perf absent --delay 0
	fails 2 'is no size' perf absent --size 10x
}

test_a_peer_that_cannot_do_it_is_left_out() {
	suite some <<-'END'
		def never(number):
		    raise CannotRun("has no locks")
		names = {"a": "A", "b": "B"}
		def one(sides, goals):
		    return Case("row", sides, names, [Goal("speed", "1/s", peer, ">=", 1.0, side=side)
		                                      for side, peer in goals])
		yield one({"ours": side(12), "a": side(10), "b": never},
		          [("ours", ("a", "b")), ("ours", "b")])
		yield one({"ours": side(12), "a": side(10), "b": never}, [("b", "a")])
	END
	perf some --rounds 2 >"$TEST_DIR/out" 2>&1
	same "$(grep -c ' 1\.20 ' "$TEST_DIR/out")" 1
	grep -qx '  skipped: has no locks' "$TEST_DIR/out"
	grep -qx '1 rows: 1 goals met, 0 missed; skipped: some' "$TEST_DIR/out"
}

test_tells_what_else_ran() {
	local other
	sh -c 'while :; do :; done' &
	other=$!
	at_exit kill $other
	suite calm <<-END
		import os
		from harness import quiet
		from harness.scratch import wait_for
		def nap(number):
		    watch = quiet.Watch()
		    server = place.server(f"burn{number}", ["sh", "-c", "while :; do :; done"], lambda: True)
		    before = sum(quiet._ours().values())
		    wait_for("its time", lambda: sum(quiet._ours().values()) > before + 0.3, 60)
		    assert server.process.pid in quiet._ours() and $other not in quiet._ours()
		    wait_for("others' time", lambda: watch.others() > 0.1, 60)
		    server.stop()
		    return Sample(1, {"speed": 1})
		return [Case("row", {"ours": nap, "peer": nap}, {"peer": "peer 1.0"},
		             [Goal("speed", "1/s", "peer", ">=", 1.0)], warm=False)]
	END
	perf calm --quick --rounds 1 --json "$TEST_DIR/json" >"$TEST_DIR/out"
	python3 - "$TEST_DIR/json" <<-'END'
		import json, sys
		row = json.load(open(sys.argv[1]))["rows"][0]
		# One repeated, and the last one kept as it was.
		assert row["disturbed"] == 1 and row["still_disturbed"] in (0, 1), row
		assert row["load"] > 0
	END
	grep -q 'processors: 1 rounds were repeated' "$TEST_DIR/out"
}

test_writes_what_a_report_needs() {
	suite rich <<-'END'
		def of(rate):
		    def measure(number):
		        return Sample(1, {"rate": rate + number}, {"p50": 10 + number, "max": 90}, [[0, rate], [1, 0]],
		                      [[0.5, "blockd ends"]], {"server": 2.0})
		    return measure
		place.skip("the moon", "too far")
		place.hosts.append({"name": "here"})
		return [Case(f"reads {at}", {"ours": of(10), "other": of(20)}, {"other": "Other 2"},
		             [Goal("rate", "1/s", "other", ">=", 0.97, published=0.6)],
		             group="reads", at={"name": "nodes", "value": at}) for at in (1, 2)]
	END
	perf rich --rounds 3 --json "$TEST_DIR/json" >"$TEST_DIR/out"
	grep -q 'Other 2; published 0.6' "$TEST_DIR/out"
	grep -qx '  skipped: the moon: too far' "$TEST_DIR/out"
	python3 - "$TEST_DIR/json" <<-'END'
		import json, sys
		whole = json.load(open(sys.argv[1]))
		assert whole["schema"] == 2 and whole["hosts"] == [{"name": "here"}]
		assert whole["skipped"] == [{"what": "the moon", "why": "too far"}]
		one, two = whole["rows"]
		assert (one["group"], one["at"]) == ("reads", {"name": "nodes", "value": 1})
		assert two["at"]["value"] == 2
		assert one["sides"] == {"ours": {"name": "ours", "values": [10, 11, 12]},
		                        "other": {"name": "Other 2", "values": [20, 21, 22]}}
		assert one["latency"]["other"] == {"p50": 11, "max": 90}
		assert one["timelines"]["ours"] == [[0, 10], [1, 0]] and one["events"] == [[0.5, "blockd ends"]]
		assert one["cpu"]["ours"] == {"server": 2.0} and one["published"] == 0.6
	END
}

test_a_figure_that_is_no_number_is_a_failure() {
	suite odd <<-'END'
		return case(side(float("nan")), side(10), (">=", 1.0))
	END
	fails 1 'speed is no number' perf odd --quick --json "$TEST_DIR/json"
	"$TOP/perf/report" "$TEST_DIR/json" --markdown
}

test_undoes_what_a_suite_set_up_when_it_fails() {
	suite broken <<-'END'
		pid = place.server("sleeper", ["sleep", "1000"], lambda: True).process.pid
		open(place.path + "/../pid", "w").write(str(pid))
		place.folder("folder")
		raise Failed("on purpose")
	END
	fails 1 'on purpose' perf broken
	[ ! -e "/proc/$(cat "$TEST_DIR/build/perf/pid")" ] || fail "the server lives"
	same "$(ls "$TEST_DIR/build/perf")" pid
}

test_what_is_being_undone_is_undone_before_an_interrupt() {
	suite late <<-'END'
		import os, signal
		place.undo.callback(lambda: open(place.path + "/../two", "w").close())
		place.undo.callback(lambda: os.kill(os.getpid(), signal.SIGINT))
		return []
	END
	fails 130 '' perf late --json "$TEST_DIR/json"
	rm -f "$TEST_DIR/build/perf/pid"
	same "$(ls "$TEST_DIR/build/perf")" two
	grep -q '"schema": 2' "$TEST_DIR/json"
	rm "$TEST_DIR/build/perf/two"
}

test_undoes_it_when_it_is_interrupted() {
	local run rc=0
	suite slow <<-'END'
		import time
		pid = place.server("sleeper", ["sleep", "1000"], lambda: True).process.pid

		def late(number):
		    open(place.path + "/../pid", "w").write(str(pid))
		    time.sleep(1000)

		return case(side(12), side(10), (">=", 1.0)) + [
		    Case("next", {"ours": late, "peer": late}, {"peer": "peer 1.0"}, [])]
	END
	rm -f "$TEST_DIR/build/perf/pid"
	BUILD=$TEST_DIR/build "$TEST_DIR/perf/run" slow --json "$TEST_DIR/json" >"$TEST_DIR/out" 2>&1 &
	run=$!
	at_exit kill -KILL $run
	eventually 30 test -s "$TEST_DIR/build/perf/pid"
	kill -TERM $run
	wait $run || rc=$?
	same $rc 143
	[ ! -e "/proc/$(cat "$TEST_DIR/build/perf/pid")" ] || fail "the server lives"
	same "$(ls "$TEST_DIR/build/perf")" pid
	# The rows measured until then are kept.
	grep -q '"row": "row"' "$TEST_DIR/json"
}

# What works on hosts of either kind; leaves nothing.
hosts_suite() { # PYTHON, that makes them
	suite hosts <<-END
		import os
		from harness import hosts as of
		all_hosts = $1
		one, two = all_hosts.hosts[:2]
		assert one.address != two.address
		assert one.run(["printf", "%s|", "it's", "a  b", "\$x"]) == "it's|a  b|\$x|"
		for argv, text in ((["sh", "-c", "echo no >&2; exit 3"], "exit 3: no"),
		                   (["no-such-program"], "no-such-program"),
		                   (["sleep", "1000"], "not within 1 s")):
		    try:
		        one.run(argv, timeout=1 if argv[0] == "sleep" else 60)
		        raise Failed("it succeeded")
		    except Failed as e:
		        assert text in str(e), e
		server = two.start(["sh", "-c", "while :; do :; done & wait"], "log")
		while server.cpu_seconds() < 0.05:
		    server.alive()
		two.mount(["mount", "-t", "tmpfs", "tmpfs"], two.folder("mounted"))
		two.write(two.path("mounted/file"), "text")
		two.get(two.path("mounted/file"), place.path + "/got")
		assert open(place.path + "/got").read() == "text"
		assert "trib" in one.run([one.built("bin/trib"), "--version"])
		assert 0 < of.distance_us(one, two) < 1e6
		assert one.facts()["cores"] > 0
		open("$TEST_DIR/what", "w").write(f"{two.base} {server.pid}\\n")
		$2
	END
}
no_host_is_left() {
	local folder pid
	read -r folder pid <"$TEST_DIR/what"
	[ ! -e "$folder" ] || fail "its folder is there"
	! grep -F "$folder" /proc/mounts || fail "mounted"
	# On a host that ssh reaches it ends when the connection does, a moment later.
	eventually 30 eval "! kill -0 $pid"
	same "$(ls "$TEST_DIR/build/perf")" ""
}
fake_build() {
	mkdir -p "$TEST_DIR/build/bin"
	[ -e "$TEST_DIR/build/bin/trib" ] || ln -s "$BUILD/bin/trib" "$TEST_DIR/build/bin/trib"
	rm -rf "$TEST_DIR/build/perf"
}

test_hosts_are_namespaces_of_this_machine() {
	need_root
	need ip tc nsenter
	fake_build
	hosts_suite 'of.Namespaces(place, 2, mbit=100, delay_ms=2)' 'return case(side(12), side(10), (">=", 1.0))'
	perf hosts --rounds 1 >"$TEST_DIR/out" 2>&1 || fail "$(cat "$TEST_DIR/out")"
	no_host_is_left
}

# ssh_hosts: two namespaces with an sshd each, that PERF_SSH reaches as "one" and "two"
ssh_hosts() {
	local sshd i dir
	need ssh ssh-keygen ip
	sshd=$(command -v sshd || true)
	if [ -z "$sshd" ]; then
		sshd=$BUILD/perf/openssh/usr/sbin/sshd
		[ -x "$sshd" ] || "$TOP/tests/apt-unpack" -n "$BUILD/perf/openssh" openssh-server >/dev/null 2>&1 ||
			skip "no openssh-server here, and apt can't give it"
	fi
	dir=$(mktemp -d "$TEST_DIR/ssh.XXXXXX")
	mkdir -p /run/sshd
	if ! getent passwd sshd >/dev/null; then
		{ cat /etc/passwd; echo 'sshd:x:109:65534::/run/sshd:/usr/sbin/nologin'; } >"$dir/passwd"
		mount --bind "$dir/passwd" /etc/passwd
		at_exit umount /etc/passwd
	fi
	ssh-keygen -q -t ed25519 -N '' -f "$dir/host"
	ssh-keygen -q -t ed25519 -N '' -f "$dir/key"
	ip link add "perf$$" type bridge
	at_exit ip link del "perf$$"
	ip addr add 10.78.0.100/24 dev "perf$$"
	ip link set "perf$$" up
	for i in 1 2; do
		ip netns add "perf$$-$i"
		at_exit ip netns del "perf$$-$i"
		ip link add "p$$-$i" type veth peer name eth0 netns "perf$$-$i"
		ip link set "p$$-$i" master "perf$$" up
		ip -n "perf$$-$i" addr add "10.78.0.$i/24" dev eth0
		ip -n "perf$$-$i" link set eth0 up
		ip -n "perf$$-$i" link set lo up
		ip netns exec "perf$$-$i" "$sshd" -D -e -f /dev/null -o "HostKey=$dir/host" \
			-o "AuthorizedKeysFile=$dir/key.pub" -o StrictModes=no -o PidFile=none \
			-o UsePAM=no -o PermitRootLogin=yes 2>"$dir/log$i" &
		at_exit kill $!
		eventually 30 grep -q 'Server listening' "$dir/log$i"
	done
	cat >"$dir/config" <<-END
		Host one
		HostName 10.78.0.1
		Host two
		HostName 10.78.0.2
		Host *
		User root
		IdentityFile $dir/key
		StrictHostKeyChecking no
		UserKnownHostsFile /dev/null
		LogLevel ERROR
	END
	export PERF_SSH="ssh -F $dir/config"
}

test_hosts_are_machines_that_ssh_reaches() {
	local pid
	need_root
	ssh_hosts
	fake_build
	mkdir "$TEST_DIR/far"
	hosts_suite "of.Ssh(place, ['one:$TEST_DIR/far', 'two:$TEST_DIR/far'])" 'raise Failed("on purpose")'
	fails 1 'on purpose' perf hosts
	no_host_is_left
	same "$(ls "$TEST_DIR/far")" ""
	# Whatever becomes of us, nothing stays there.
	hosts_suite "of.Ssh(place, ['one:$TEST_DIR/far', 'two:$TEST_DIR/far'])" 'os.kill(os.getpid(), 9)'
	TMPDIR=$TEST_DIR fails 137 '' perf hosts
	eventually 30 no_files "$TEST_DIR/far"
	rm -rf "$TEST_DIR"/build/perf/*
	no_host_is_left
	# Nobody is there.
	ip -n "perf$$-2" link set eth0 down
	fails 1 'two does not answer' perf hosts
	same "$(ls "$TEST_DIR/far")" ""
}
no_files() { [ -z "$(ls "$1")" ]; }

# The suites that measure volumes across hosts, for real.
across_hosts() {
	need_root
	need fio ip openssl mkfs.ext4
	rm -rf "$TEST_DIR/build"
	mkdir "$TEST_DIR/build"
	ln -s "$BUILD/bin" "$BUILD/test" "$TEST_DIR/build"
	cp -r "$TOP/perf/nodes" "$TOP/perf/jobs" "$TEST_DIR/perf"
	cp "$TOP/perf/suites/thesis.py" "$TEST_DIR/perf/suites"
}

test_across_hosts_what_is_missing_is_said() {
	across_hosts
	chmod 755 "$TEST_DIR"
	fails 77 'no folder in' setpriv --reuid=65534 --regid=65534 --clear-groups \
		env BUILD="$TEST_DIR/build" "$TEST_DIR/perf/run" thesis --quick
	chmod 777 "$TEST_DIR/build"
	fails 77 'needs root' setpriv --reuid=65534 --regid=65534 --clear-groups \
		env BUILD="$TEST_DIR/build" "$TEST_DIR/perf/run" thesis --quick
	rm -rf "$TEST_DIR/build/perf"
	mkdir "$TEST_DIR/path"
	ln -sf /usr/bin/* /usr/sbin/* "$TEST_DIR/path"
	rm "$TEST_DIR/path/fio"
	PATH=$TEST_DIR/path fails 77 'host1 needs fio' perf thesis --quick
	same "$(ls "$TEST_DIR/build/perf")" ""
	mount -t tmpfs -o size=64M tmpfs "$TEST_DIR/build/perf"
	at_exit umount "$TEST_DIR/build/perf"
	fails 77 'MiB free at' perf thesis --quick
	same "$(ls "$TEST_DIR/build/perf")" ""
}

test_a_host_that_does_not_answer_is_named() {
	need_root
	ssh_hosts
	across_hosts
	mkdir -p "$TEST_DIR/far"
	ip -n "perf$$-2" link set eth0 down
	fails 1 'two does not answer' perf thesis --quick --hosts "one:$TEST_DIR/far,two:$TEST_DIR/far"
	fails 1 'nobody.invalid does not answer' perf thesis --quick --hosts "one:$TEST_DIR/far,nobody.invalid"
	same "$(ls "$TEST_DIR/far")" ""
}

nothing_is_left() {
	! grep -F "$TEST_DIR/build/perf/" /proc/mounts || fail "mounted"
	same "$(losetup -nlO BACK-FILE | grep -F "$TEST_DIR/build/perf/" || true)" "" "loop devices"
	same "$(pgrep -af "$TEST_DIR/build/perf/" || true)" "" "processes"
	same "$(ls "$TEST_DIR/build/perf")" ""
}
# there PATTERN: in a host's folder
there() { compgen -G "$TEST_DIR/build/perf/thesis.*/perf-thesis.*/$1" >/dev/null; }

test_across_hosts_nothing_is_left_when_it_is_interrupted() {
	local moment run rc
	across_hosts
	for moment in blockd.log host1-v1 randread.fio; do
		BUILD=$TEST_DIR/build "$TEST_DIR/perf/run" thesis --quick --size 64MiB >"$TEST_DIR/out" 2>&1 &
		run=$!
		at_exit kill -KILL $run
		eventually 100 there "$moment"
		rc=0
		kill -INT "$run"
		wait $run || rc=$?
		same $rc 130 "$moment"
		nothing_is_left
	done
}

test_the_load_client_checks_what_it_reads() {
	need nbdkit
	nbdkit -f -P "$TEST_DIR/nbdkit.pid" -U "$TEST_DIR/sock" memory 1M &
	at_exit kill $!
	eventually 30 test -s "$TEST_DIR/nbdkit.pid"
	fails 1 'wrong data at block' "$BUILD/test/perf/nbd_load" -a "unix:$TEST_DIR/sock" -n 300
	fails 1 'connect to' "$BUILD/test/perf/nbd_load" -a "unix:$TEST_DIR/none"
}

# recorded PATH FACTOR_OF_INSTRUCTIONS CALLS_LESS: what is recorded of it is so much less
recorded() {
	awk -v path="$1" -v factor="$2" -v less="$3" '$1 == path {$2 /= factor; $3 -= less} {print}' \
		perf/work.recorded >"$TEST_DIR/recorded"
}
work() { perf/work --recorded "$TEST_DIR/recorded" "$@"; }

test_one_more_system_call_or_more_instructions_of_a_path_fail() {
	[ "$(id -u)" = 0 ] || skip "needs root"
	[ "$(uname -m)" = x86_64 ] || skip "needs x86-64"
	recorded nbd-read-qd1 1 0
	work nbd-read-qd1 >"$TEST_DIR/out" || fail "$(cat "$TEST_DIR/out")"
	recorded nbd-read-qd1 1 1
	fails 1 "# more system calls" work nbd-read-qd1
	gcc=$(awk '$1 == "compiler" {print $3}' perf/work.recorded)
	if readelf -p .comment "$BUILD/bin/blockd" | grep -q "GCC: (.*) $gcc\."; then
		recorded nbd-read-qd1 1.12 0
		fails 1 "# more instructions" work nbd-read-qd1
	fi
}

test_where_the_work_of_a_path_is_can_be_seen() {
	local counted
	[ "$(id -u)" = 0 ] || skip "needs root"
	[ "$(uname -m)" = x86_64 ] || skip "needs x86-64"
	recorded nbd-read-qd1 1 0
	work nbd-read-qd1 --functions >"$TEST_DIR/out" || fail "$(cat "$TEST_DIR/out")"
	grep -qE '^# +[0-9.]+ [a-z_]*nbd[a-z_]*$' "$TEST_DIR/out" || fail "$(cat "$TEST_DIR/out")"
	grep -qE '^# +calls by number: .*: [0-9.]+' "$TEST_DIR/out"
	# Together they are all of one round, which has no fewer than the least.
	counted=$(awk '/^# / && $2 ~ /^[0-9.]+$/ {sum += $2} END {printf "%d", sum + 1}' "$TEST_DIR/out")
	[ "$counted" -ge "$(sed -n 's/.*nbd-read-qd1: \([0-9]*\).*/\1/p' "$TEST_DIR/out")" ] || fail "$counted"
}

test_growth_that_is_recorded_needs_a_reason() {
	[ "$(id -u)" = 0 ] || skip "needs root"
	[ "$(uname -m)" = x86_64 ] || skip "needs x86-64"
	{ cat perf/work.recorded; echo "nbd-read-qd1 4000 4"; } >"$TEST_DIR/recorded"
	fails 1 "nbd-read-qd1 grew, and no reason is given" work nbd-read-qd1
	{ cat perf/work.recorded; echo "nbd-read-qd1 4000 4 each read is checked twice"; } >"$TEST_DIR/recorded"
	work nbd-read-qd1 >"$TEST_DIR/out" || fail "$(cat "$TEST_DIR/out")"
	grep -q "# less: to record" "$TEST_DIR/out"
}

run_tests "$@"
