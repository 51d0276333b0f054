# SPDX-License-Identifier: Apache-2.0
# A writer that notices what happens to its files: `. tests/writer_lib.sh`
# after lib.sh. WRITER_FILES files of WRITER_SIZE bytes, over and over.
WRITER_FILES=${WRITER_FILES:-20}
WRITER_SIZE=${WRITER_SIZE:-300000}

# writer_start DIR, writer_stop DIR: files and their checksums, without pause
writer_start() {
	mkdir -p "$1/w"
	rm -f "$TEST_DIR/stop" "$TEST_DIR/errors"
	(
		set +e
		n=0
		while [ ! -e "$TEST_DIR/stop" ]; do
			n=$((n + 1))
			head -c $WRITER_SIZE /dev/urandom >"$TEST_DIR/w" &&
				dd if="$TEST_DIR/w" of="$1/w/$((n % WRITER_FILES))" bs=64k \
					conv=fsync 2>/dev/null &&
				(cd "$TEST_DIR" && sha256sum w) |
				sed "s, w\$, w/$((n % WRITER_FILES))," >"$1/w/$((n % WRITER_FILES)).sum" ||
				echo "write $n failed" >>"$TEST_DIR/errors"
			echo $n >"$TEST_DIR/written"
		done
	) &
	WRITER=$!
	at_exit touch "$TEST_DIR/stop"
	eventually 30 test -s "$1/w/3.sum"
}
writer_stop() {
	touch "$TEST_DIR/stop"
	wait $WRITER
	[ ! -e "$TEST_DIR/errors" ] || fail "$(cat "$TEST_DIR/errors")"
	[ "$(cat "$TEST_DIR/written")" -gt 3 ]
	(cd "$1" && sha256sum --quiet -c w/*.sum)
}
