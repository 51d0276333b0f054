# SPDX-License-Identifier: Apache-2.0
# Sourced by system tests of the iSCSI target, after lib.sh: a server of it
# alone, and clients.
serve=$BUILD/test/target/testkit/iscsi_serve_main
PREFIX=iqn.2025-01.io.union

need_qemu_iscsi() {
	qemu-img --help | grep -q 'Supported formats:.* iscsi' ||
		[ -e /usr/lib/x86_64-linux-gnu/qemu/block-iscsi.so ] ||
		skip_all "needs qemu's iscsi driver (qemu-block-extra)"
}

# start_server OPTION...: sets $portal ("ADDRESS:PORT"), $other (a second
# one), $log and $server (its pid)
start_server() {
	told=$TEST_DIR/out.$BASHPID log=$TEST_DIR/log.$BASHPID
	rm -f "$told"
	"$serve" --listen tcp:127.0.0.1:0 --listen tcp:127.0.0.1:0 "$@" \
		>"$told" 2>"$log" &
	server=$!
	at_exit kill -9 "$server"
	eventually 30 listens_or_died
	kill -0 "$server" || fail "did not start: $(cat "$log")"
	portal=$(sed -n 's/^listening tcp://p' "$told" | head -n 1)
	other=$(sed -n 's/^listening tcp://p' "$told" | tail -n 1)
}
listens_or_died() {
	! kill -0 "$server" || [ "$(grep -c '^listening tcp' "$told")" = 2 ]
}

# Stop the server, which must end on SIGTERM with 0.
stop_server() {
	local rc=0
	kill -TERM "$server"
	wait "$server" || rc=$?
	same "$rc" 0 "exit code of the server: $(cat "$log")"
}

say_more() { tail -n 20 "${log:-/dev/null}" | cut -c -300; }

io() { # URL COMMAND...: qemu-io, which has to be content
	local url=$1 command args=()
	shift
	for command in "$@"; do args+=(-c "$command"); done
	case $url in
	driver=*) args+=(--image-opts) ;;
	*) args+=(-f raw) ;;
	esac
	timeout 60 qemu-io "${args[@]}" "$url" >"$TEST_DIR/io" 2>&1 ||
		fail "$(cat "$TEST_DIR/io")"
	! grep -Ei 'fail|error|verif' "$TEST_DIR/io" ||
		fail "$(cat "$TEST_DIR/io")"
}

chap_file() { # NAME USER SECRET [USER SECRET]
	printf 'user %s\nsecret %s\n' "$2" "$3" >"$TEST_DIR/$1"
	[ $# -lt 5 ] || printf 'mutual-user %s\nmutual-secret %s\n' "$4" "$5" \
		>>"$TEST_DIR/$1"
	chmod 600 "$TEST_DIR/$1"
}
