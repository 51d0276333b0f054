#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The NBD server before the nbd project's own tester, every kind of test it has.
. "$(dirname "$0")/../lib.sh"
need gcc openssl
cache=$BUILD/nbd-tester
serve=$BUILD/test/target/testkit/nbd_serve_main
reason=$("$TOP/tests/nbd-tester" "$cache" 2>&1) ||
	skip_all "nbd-tester-client can't be built: ${reason##*$'\n'}"

start_server() { # OPTION...: sets $port
	rm -f "$TEST_DIR/said"
	"$serve" --listen tcp:127.0.0.1:0 --listen "unix:$TEST_DIR/socket" \
		--export disk=ram:64M --export zeroes=ram:64M --export more=ram:64M \
		"$@" >"$TEST_DIR/said" 2>"$TEST_DIR/log" &
	server=$!
	at_exit kill -9 "$server"
	eventually 30 listens_or_died
	kill -0 "$server" || fail "did not start: $(cat "$TEST_DIR/log")"
	port=$(sed -n 's/^listening tcp:.*://p' "$TEST_DIR/said")
}

listens_or_died() {
	! kill -0 "$server" || grep -q '^listening unix' "$TEST_DIR/said"
}

# try NAME OPTION...: counted
passed=0 failed=()
try() {
	local name=$1
	shift
	if timeout 120 "$cache/nbd-tester-client" "$@" >"$TEST_DIR/case" 2>&1; then
		passed=$((passed + 1))
	else
		failed+=("$name: $(tail -n 1 "$TEST_DIR/case")")
	fi
}

told() {
	kill "$server" && wait "$server"
	echo "# count nbd-tester-client: $((passed + ${#failed[@]})) run, $passed passed, ${#failed[@]} failed ${failed[*]-}" >&"$_SAID"
	[ ${#failed[@]} = 0 ]
}

# Not its integrityhuge-test.tr: that asks for up to 48 MiB at once, and does
# not look at the largest request that the server says it takes (32 MiB).
test_every_case_of_the_tester_passes() {
	local at=(127.0.0.1)
	start_server
	at+=("$port")
	cd "$TEST_DIR"
	try read -N disk "${at[@]}"
	try write -N disk -w "${at[@]}"
	try write-and-flush -N disk -w -f "${at[@]}"
	try oversize -N disk -o "${at[@]}"
	try handshake -N disk -h "${at[@]}"
	try integrity -N zeroes -i -t "$cache/integrity-test.tr" "${at[@]}"
	try unix -N disk -u "$TEST_DIR/socket"
	try unix-integrity -N more -i -t "$cache/integrity-test.tr" \
		-u "$TEST_DIR/socket"
	told
}

test_every_case_behind_tls_passes() {
	local at=(127.0.0.1) k=$TEST_DIR
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
		-keyout "$k/key.pem" -out "$k/cert.pem" -days 2 -subj "/CN=localhost" \
		-addext subjectAltName=DNS:localhost 2>/dev/null
	chmod 600 "$k/key.pem"
	start_server --tls-cert "$k/cert.pem" --tls-key "$k/key.pem" \
		--tls-ca "$k/cert.pem" --tls-required
	at+=("$port" -C "$k/cert.pem" -K "$k/key.pem" -A "$k/cert.pem" -H localhost)
	cd "$TEST_DIR"
	try read -N disk "${at[@]}"
	try write-and-flush -N disk -w -f "${at[@]}"
	try integrity -N zeroes -i -t "$cache/integrity-test.tr" "${at[@]}"
	told
}

run_tests "$@"
