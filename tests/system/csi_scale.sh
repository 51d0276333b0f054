#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Many nodes and volumes, of one program that stands for them
# (tests/fake_cluster.c): what depends on how many there are.
. "$(dirname "$0")/../lib.sh"
need jq
NODES=50 VOLUMES=520 # more than a page of the store has
C=$TEST_DIR/c
STORE=local:$C/store.db

daemon() { # NAME COMMAND...: until the end
	"${@:2}" >"$C/$1.log" 2>&1 &
	at_exit kill -9 $!
}
say_more() { tail -n 5 "$C"/*.log; }

mkdir -p "$C/nodes" "$C"/host{1,2,3} "$C/host1/run"
daemon nodes "$BUILD/test/tests/fake_cluster" "$STORE" "$C/nodes" $NODES $VOLUMES
eventually 300 grep -q '^ready' "$C/nodes.log"
daemon driver trib-csi --endpoint "unix://$C/host1/csi.sock" --node host1 \
	--store "$STORE" --run-dir "$C/host1/run"
eventually 60 test -S "$C/host1/csi.sock"

# The client requires all in order, each once.
test_pages_add_up_while_volumes_come_and_go() {
	"$BUILD/test/tests/csi/scale_main" "$C" 1 $VOLUMES | tee "$TEST_DIR/all"
	jq -e '.create > 0 and .list > 0' "$TEST_DIR/all"
	"$BUILD/test/tests/csi/scale_main" "$C" 1 $VOLUMES 37
	fails any "are listed" "$BUILD/test/tests/csi/scale_main" "$C" 1 $((VOLUMES + 1)) 37
}

test_trib_lists_all_of_them() {
	trib --store "$STORE" --json volume list >"$TEST_DIR/list"
	same "$(jq length "$TEST_DIR/list")" $VOLUMES
	same "$(jq '[.[].metadata.name] | . == (sort | unique)' "$TEST_DIR/list")" true
}

run_tests
