#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Benchmarks across nodes: the applications check what they did, and peers come
# up and go.
. "$(dirname "$0")/../lib.sh"
need python3 setpriv

# app NAME PARAMETERS [LINES OF PYTHON]: one application of perf/nodes/ in $TEST_DIR/apps
app() {
	python3 -B - "$TOP/perf/nodes" "$1" "$TEST_DIR/apps" "$2" "${3:-}" <<-'END'
		import os, sys
		sys.path.insert(0, sys.argv.pop(1))
		import do_app
		exec(sys.argv.pop())
		sys.exit(do_app.main())
	END
}
app_inputs() {
	mkdir -p "$TEST_DIR/apps" "$TEST_DIR/inputs"
	[ -e "$TEST_DIR/inputs/digests" ] || python3 -B "$TOP/perf/nodes/do_app.py" prepare "$TEST_DIR/inputs" \
		'{"tree_files": 60, "git_files": 20, "layers": 3, "layer_files": 60}' >/dev/null
}

test_applications_do_their_work_and_leave_nothing() {
	need git fio setpriv
	local in="\"inputs\": \"$TEST_DIR/inputs\"" pg
	app_inputs
	app tree "{$in, \"files\": 60, \"programs\": {}}" | grep -q '"work": 60, "figures": {"unpack": '
	app git "{$in, \"statuses\": 2}" | grep -q '"clone": '
	app layers "{$in}" | grep -q '"unpack": '
	app small '{"files": 80, "processes": 4, "size": 100}' | grep -q '"work": \[20, 4\]'
	app append '{"lines": 30}' | grep -q '"work": 30'
	app sqlite '{"journal": "wal", "inserts": 3, "queries": 30}' | grep -q '"query": '
	app sqlite '{"journal": "delete", "inserts": 3, "queries": 30}' | grep -q '"query": '
	app etcd_disk '{"mib": 1}' | grep -q '"p99.9": '
	for pg in /usr/lib/postgresql/*/bin; do
		[ ! -x "$pg/initdb" ] || [ "$(id -u)" != 0 ] || app postgres \
			"{\"programs\": {\"postgres\": \"$pg\"}, \"scale\": 1, \"clients\": 2, \"seconds\": 1}" |
			grep -q '"tpcb": '
	done
	same "$(ls "$TEST_DIR/apps")" ""
}

# What a file system that lies would give.
test_an_application_whose_result_is_wrong_fails() {
	need git
	local in="\"inputs\": \"$TEST_DIR/inputs\"" half='
class Lies:
    def __getattr__(self, name): return getattr(os, name)
    def write(self, fd, data): return os.write(fd, data[:-1] + b"?")
do_app.os = Lies()'
	app_inputs
	fails 1 'the log has other lines' app append '{"lines": 30}' "$half"
	fails 1 'read: [0, ' app small '{"files": 80, "processes": 4, "size": 100}' "$half"
	fails 1 'has other content' app layers "{$in}" "$half"
	fails 1 'the search finds 2' app tree "{$in, \"files\": 600, \"programs\": {}}"
	sed -i 's/"[0-9a-f]*"}/"0"}/; s/"tree": "[0-9a-f]*"/"tree": "0"/' "$TEST_DIR/inputs/digests"
	fails 1 'the tree is another one' app tree "{$in, \"files\": 60, \"programs\": {}}"
	fails 1 'the clone is another tree' app git "{$in, \"statuses\": 1}"
	rm -r "$TEST_DIR/inputs"
	fails 1 'rows' app sqlite '{"journal": "wal", "inserts": 3, "queries": 30}' '
class Db:
    def __init__(self, *args, **more): self.db = connect(*args, **more)
    def __getattr__(self, name): return getattr(self.db, name)
    def execute(self, query, *args):
        return self.db.execute("select ?, ?" if query.startswith("insert") else query, *args)
connect = do_app.sqlite3.connect
do_app.sqlite3.connect = Db'
	same "$(ls "$TEST_DIR/apps")" ""
}

test_peers_give_a_directory_and_one_that_cannot_be_had_is_told() {
	need_root
	need nbdkit mkfs.ext4 losetup ip
	[ -x "$BUILD/bin/trib-nbd" ] || skip "needs trib-nbd"
	BUILD=$BUILD python3 -B - "$TOP/perf" >"$TEST_DIR/out" <<-'END'
		import os, sys
		sys.path.insert(0, sys.argv[1])
		from harness import hosts, scratch
		from nodes import peers

		def absent(client, nodes, size):
		    raise scratch.CannotRun("is not on this moon")

		peers.FILE_PEERS["gluster"] = absent
		with scratch.Scratch("peers") as place:
		    near, far = hosts.Namespaces(place, 2).hosts
		    wanted = ["own", "nbdkit", "gluster", "mergerfs over nfs"]
		    found, skipped = peers.bring_up(near, [far], 64 << 20, wanted)
		    for name, side in found.items():
		        with open(side.directory + "/file", "w") as f:
		            f.write("x")
		        print(name, side.name, "mounted" if os.path.ismount(side.directory) else "")
		    for what, why in skipped:
		        print("skipped:", what, why)
		    print("at", place.path)
	END
	grep -q '^own ext4 itself\|^own .* itself' "$TEST_DIR/out"
	grep -q '^nbdkit nbdkit [0-9.]*, ext4 mounted$' "$TEST_DIR/out"
	grep -q '^skipped: gluster is not on this moon$' "$TEST_DIR/out"
	grep -q '^skipped: mergerfs over nfs there is no nfs' "$TEST_DIR/out"
	local at
	at=$(sed -n 's/^at //p' "$TEST_DIR/out")
	[ ! -e "$at" ] || fail "$at is still there"
	! grep -F "$at" /proc/mounts || fail "mounts are left"
	! losetup -nlO BACK-FILE | grep -F "$at" || fail "loop devices are left"
}

run_tests "$@"
