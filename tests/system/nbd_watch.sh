#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What can be seen of blockd's exports, and what they cost while nothing is done.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/blockd_lib.sh"
need_root
need nbdinfo qemu-io curl
python=/usr/bin/python3
"$python" -c 'import nbd' 2>/dev/null || skip_all "needs python3-libnbd"

# stat OPERATION FIELD: of export x
stat_of() {
	call GetExportStats name=x | "$python" -c '
import json, sys
for o in json.load(sys.stdin).get("operations", []):
    if o["operation"] == sys.argv[1]:
        print(o[sys.argv[2]])' "$1" "$2"
}

page() { curl -s -f --unix-socket "$D/run/metrics" http://x/metrics >"$D/page"; }
shows() { page && grep -qF -- "$1" "$D/page"; }

test_operations_bytes_and_errors_are_counted() {
	place counts
	start_blockd --metrics-address "unix:$D/run/metrics"
	call CreateExtent name=x size=$((16 * MIB)) >/dev/null
	fails 1 "not served" call GetExportStats name=x
	fails 1 "ENOENT" call GetExportStats name=y
	call SetExport name=x epoch=1 initiators=unix >/dev/null
	"$python" - "$(uri x@1)" <<-'END'
		import nbd, sys
		h = nbd.NBD()
		h.connect_uri(sys.argv[1])
		h.set_strict_mode(0)
		for i in range(10):
		    h.pwrite(b"x" * 4096, i * 4096)
		h.flush()
		for i in range(7):
		    h.pread(65536, 0)
		for i in range(2):
		    try:
		        h.pread(4096, 16 << 20)
		        raise SystemExit("read past the end")
		    except nbd.Error:
		        pass
		h.shutdown()
	END
	# Counted as replies go out, kept when the connection has ended.
	is_read() { [ "$(stat_of read count)" = "$1" ]; }
	eventually 60 is_read 9
	same "$(stat_of read errors)" 2
	same "$(stat_of read bytes)" $((7 * 65536))
	same "$(stat_of write count)" 10
	same "$(stat_of write bytes)" 40960
	same "$(stat_of flush count)" 1
	same "$(call GetExportStats name=x | "$python" -c '
import json, sys
print(all(sum(int(n) for n in o["latency"]) == int(o["count"])
          for o in json.load(sys.stdin)["operations"]))')" True
	shows 'trib_blockd_operations_total{extent="x",op="read"} 9'
	shows 'trib_blockd_errors_total{extent="x",op="read"} 2'
	shows 'trib_blockd_bytes_total{extent="x",op="write"} 40960'
	shows 'trib_blockd_operation_seconds_bucket{extent="x",op="write",le="+Inf"} 10'
	shows 'trib_blockd_operation_seconds_count{extent="x",op="flush"} 1'
	shows 'trib_blockd_pool_online{pool="a"} 1'
	shows "trib_blockd_pool_capacity_bytes{pool=\"a\"} $((256 * MIB))"
}

test_who_is_connected_is_told_with_what_was_agreed_on() {
	local client id of
	place who
	start_blockd --metrics-address "unix:$D/run/metrics"
	call CreateExtent name=x size=$((16 * MIB)) >/dev/null
	call SetExport name=x epoch=1 initiators=unix >/dev/null
	"$python" - "$(uri x@1)" "$D" <<-'END' &
		import nbd, os, sys, time
		h = nbd.NBD()
		h.add_meta_context("base:allocation")
		h.connect_uri(sys.argv[1])
		h.pwrite(b"x" * 512, 0)
		open(sys.argv[2] + "/there", "w").close()
		while not os.path.exists(sys.argv[2] + "/go"):
		    time.sleep(0.05)
	END
	client=$!
	eventually 60 test -e "$D/there"
	same "$(call GetExportStats name=x | field connections.#)" 1
	same "$(call GetExportStats name=x | field connections.0.peer)" "the unix socket"
	same "$(call GetExportStats name=x | field connections.0.features)" \
		"structured base:allocation"
	same "$(call GetExportStats name=x | field connections.0.operations.0.bytes)" 512
	shows 'trib_blockd_connections{extent="x"} 1'
	id=$(call GetExportStats name=x | field connections.0.id)
	of="{extent=\"x\",connection=\"$id\""
	shows "trib_blockd_connection_info$of,peer=\"the unix socket\",features=\"structured base:allocation\"} 1"
	shows "trib_blockd_connection_bytes_total$of,op=\"write\"} 512"
	shows "trib_blockd_connection_seconds_count$of,op=\"write\"} 1"
	shows 'trib_blockd_connections_left_out 0'
	touch "$D/go"
	wait $client
	eventually 60 shows 'trib_blockd_connections{extent="x"} 0'
	! grep -q "^trib_blockd_connection_info" "$D/page" ||
		fail "told of a connection that is over"
}

test_a_hundred_idle_exports_and_connections_are_small() {
	local i client rss ticks before
	place idle
	start_blockd --pool-capacity 2GiB --overcommit 1000
	for i in $(seq 100); do
		call CreateExtent name="e$i" size=$MIB >/dev/null
		call SetExport name="e$i" epoch=1 initiators=unix >/dev/null
	done
	"$python" - "$D" <<-'END' &
		import nbd, os, sys, time
		hs = []
		for i in range(100):
		    h = nbd.NBD()
		    h.connect_uri(f"nbd+unix:///e{i + 1}@1?socket={sys.argv[1]}/run/nbd")
		    assert h.pread(4096, 0) == bytes(4096)
		    hs.append(h)
		open(sys.argv[1] + "/there", "w").close()
		while not os.path.exists(sys.argv[1] + "/go"):
		    time.sleep(0.05)
		for h in hs:
		    h.pwrite(b"x" * 512, 0) # all still work
	END
	client=$!
	eventually 60 test -e "$D/there"
	rss=$(awk '/^VmRSS/ {print $2}' /proc/$PID/status)
	before=$(cat /proc/$PID/task/*/schedstat | awk '{s += $1} END {print s}')
	sleep 2
	ticks=$(cat /proc/$PID/task/*/schedstat | awk '{s += $1} END {print s}')
	echo "RSS $((rss / 1024)) MiB, $(((ticks - before) / 2000)) us of processor a second"
	[ "$rss" -lt $((32 * 1024)) ] || fail "RSS $rss KiB"
	touch "$D/go"
	wait $client
}

run_tests "$@"
