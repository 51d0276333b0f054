# SPDX-License-Identifier: Apache-2.0
# For the initiator's tests, after lib.sh: servers to attach to, and calls of
# initiator.h through a helper.
CALL=$BUILD/test/initiator/initiator_call_main
SERVE=$BUILD/test/target/testkit/nbd_serve_main
STATE=$TEST_DIR/state
SERVER_PORT=
SERVER_PID=

# call COMMAND KEY=VALUE...: what it prints is kept for `value`
call() { "$CALL" "$@" state="$STATE" >"$TEST_DIR/out"; }
value() { sed -n "s/^$1=//p" "$TEST_DIR/out" | head -n 1; }
refused() {
	local errno=$1 text=$2
	shift 2
	fails 1 "$errno" "$CALL" "$@" state="$STATE"
	fails 1 "$text" "$CALL" "$@" state="$STATE"
}
# After a failure: what was answered, what server and device said.
say_more() {
	tail -n 20 "$TEST_DIR/out" "$TEST_DIR/server.err" "$STATE"/*.log
}
healthy() { call get id=a && [ "$(value healthy)" = 1 ]; }
unhealthy() { call get id=a && [ "$(value healthy)" = 0 ]; }

# remote EXPORT SIZE: the arguments that attach it
remote() {
	echo "id=a transport=${TRANSPORT:-fuse} address=127.0.0.1:$SERVER_PORT export=$1 size=$2"
}

# three SIZE SIZE SIZE [OPTION]...: exports p0, p1, p2 of one server, and in
# $parts the arguments that attach them
three() {
	local i sizes=("$1" "$2" "$3")
	shift 3
	parts="id=a transport=${TRANSPORT:-fuse}"
	for i in 0 1 2; do
		truncate -s "${sizes[i]}" "$TEST_DIR/p$i.img"
	done
	server p0 "${sizes[0]}" --export "p1=$TEST_DIR/p1.img" --export "p2=$TEST_DIR/p2.img" "$@"
	for i in 0 1 2; do
		parts+=" part=${sizes[i]},127.0.0.1:$SERVER_PORT,p$i"
	done
}

# The mapper devices that a test left, also with requests that wait below.
remove_mapped() {
	local name
	while read -r name; do
		[ -e "/dev/mapper/$name" ] || continue
		dmsetup wipe_table --noflush --nolockfs --noudevsync "$name"
		dmsetup remove --deferred --noudevsync "$name"
	done < <(sed -n 's|^top=/dev/mapper/||p' "$STATE"/*.attachment "$STATE"/*.joined/*.attachment)
}

clean_state() {
	local m l
	# The file systems, then the devices below them, then what serves those.
	while read -r m; do umount "$m" || umount -l "$m"; done < <(
		awk -v d="$TEST_DIR/mnt" '$5 == d {print $5}' /proc/self/mountinfo)
	remove_mapped
	for l in /sys/block/loop*/loop/backing_file; do
		[ -e "$l" ] || continue
		case $(cat "$l") in "$TEST_DIR"/*)
			l=${l#/sys/block/}
			losetup -d "/dev/${l%%/*}"
			;;
		esac
	done
	while read -r m; do umount -l "$m"; done < <(
		awk -v d="$TEST_DIR/" 'index($5, d) == 1 {print $5}' /proc/self/mountinfo)
	end_at_once $(pgrep -f "trib-nbd .*$STATE")
	stop_server
	rm -rf --one-file-system "$STATE" "$TEST_DIR"/*.img "$TEST_DIR"/*.log
}

# server EXPORT SIZE [OPTION]...: our own, at the same port each time
server() {
	local export=$1 size=$2 i
	shift 2
	at_exit clean_state
	[ -e "$TEST_DIR/$export.img" ] || truncate -s "$size" "$TEST_DIR/$export.img"
	for ((i = 0; i < 100; i++)); do
		: >"$TEST_DIR/server.out"
		"$SERVE" --listen "tcp:127.0.0.1:${SERVER_PORT:-0}" \
			--export "$export=$TEST_DIR/$export.img" "$@" \
			>"$TEST_DIR/server.out" 2>"$TEST_DIR/server.err" &
		SERVER_PID=$!
		until grep -q listening "$TEST_DIR/server.out"; do
			kill -0 $SERVER_PID 2>/dev/null || break
			sleep 0.02
		done
		if kill -0 $SERVER_PID 2>/dev/null; then
			SERVER_PORT=$(sed -n 's/^listening tcp:.*://p' "$TEST_DIR/server.out")
			return 0
		fi
		sleep 0.05
	done
	fail "no server: $(cat "$TEST_DIR/server.err")"
}

# kit EXPORT SIZE ARGUMENT...: nbdkit, which states no incarnation
kit() {
	local export=$1 size=$2
	shift 2
	at_exit clean_state
	[ -e "$TEST_DIR/$export.img" ] || truncate -s "$size" "$TEST_DIR/$export.img"
	if [ -z "$SERVER_PORT" ]; then
		SERVER_PORT=$(python3 -c 'import socket
s = socket.socket()
s.bind(("127.0.0.1", 0))
print(s.getsockname()[1])')
	fi
	rm -f "$TEST_DIR/kit.pid"
	nbdkit -f -i 127.0.0.1 -p "$SERVER_PORT" -P "$TEST_DIR/kit.pid" "$@" \
		>"$TEST_DIR/server.err" 2>&1 &
	SERVER_PID=$!
	eventually 30 test -s "$TEST_DIR/kit.pid"
}

stop_server() {
	[ -n "$SERVER_PID" ] || return 0
	kill "$SERVER_PID" 2>/dev/null || true
	wait "$SERVER_PID" 2>/dev/null || true
	SERVER_PID=
}
kill_server() {
	kill -9 "$SERVER_PID"
	wait "$SERVER_PID" 2>/dev/null || true
	SERVER_PID=
}

# mounted DEVICE [OPTION]...: at $TEST_DIR/mnt
mounted() {
	local device=$1
	shift
	mkdir -p "$TEST_DIR/mnt"
	mount "$@" "$device" "$TEST_DIR/mnt"
}

# tell_server: its file has grown, so let live connections follow
tell_server() {
	local before
	before=$(grep -cx grown "$TEST_DIR/server.out" || true)
	kill -HUP "$SERVER_PID"
	eventually 30 more_grown "$before"
}

more_grown() { [ "$(grep -cx grown "$TEST_DIR/server.out")" -gt "$1" ]; }

# Rounds of small synchronous writes, until "go" is removed.
keep_writing() {
	local n=0
	while [ -e "$TEST_DIR/go" ]; do
		dd if="$TEST_DIR/random" of="$TEST_DIR/mnt/f$((n++ % 40))" \
			bs=64k oflag=dsync status=none || return 1
	done
}

# Ext4 grows mounted only for one with CAP_SYS_RESOURCE (24), which root in a
# container may lack; XFS asks for CAP_SYS_ADMIN.
growing_kind() {
	local effective
	effective=$(awk '/^CapEff/{print $2}' /proc/self/status)
	if ((0x$effective >> 24 & 1)); then echo ext4; else echo xfs; fi
}
growing_mkfs() {
	case $1 in
	ext4) mkfs.ext4 -q -F "$device" ;;
	xfs) # it says how small this is
		mkfs.xfs -q -f --unsupported "$device" >"$TEST_DIR/mkfs.out" 2>&1
		;;
	esac
}
growing_grow() {
	case $1 in
	ext4) resize2fs "$device" ;;
	xfs) xfs_growfs "$TEST_DIR/mnt" ;;
	esac
}
growing_check() {
	case $1 in
	ext4) e2fsck -fn "$device" ;;
	xfs) xfs_repair -n "$device" ;;
	esac
}

# grows_while_used SIZE COMMAND...: a file system on $device is written to
# without a pause while COMMAND makes the device SIZE bytes, twice what it
# was; then the file system grows and holds more than it could before, and
# all of it is there when it is mounted again.
grows_while_used() {
	local size=$1 writer sum f kind
	shift
	kind=$(growing_kind)
	echo "# $kind"
	growing_mkfs "$kind"
	mounted "$device"
	head -c 256k /dev/urandom >"$TEST_DIR/random"
	: >"$TEST_DIR/go"
	at_exit rm -f "$TEST_DIR/go"
	keep_writing 2>"$TEST_DIR/writer.err" &
	writer=$!
	eventually 30 test -e "$TEST_DIR/mnt/f5"
	"$@"
	same "$(blockdev --getsize64 "$device")" "$size"
	growing_grow "$kind" >"$TEST_DIR/grow.out" 2>&1 ||
		fail "$(cat "$TEST_DIR/grow.out")"
	rm "$TEST_DIR/go"
	wait $writer || fail "a write failed: $(cat "$TEST_DIR/writer.err")"
	head -c $((size / 2 + (4 << 20))) /dev/urandom >"$TEST_DIR/mnt/large"
	sync -f "$TEST_DIR/mnt"
	sum=$(md5sum <"$TEST_DIR/mnt/large")
	unmount "$TEST_DIR/mnt"
	growing_check "$kind" >"$TEST_DIR/check.out" 2>&1 ||
		fail "$(cat "$TEST_DIR/check.out")"
	blockdev --flushbufs "$device"
	mounted "$device" -o ro
	same "$(md5sum <"$TEST_DIR/mnt/large")" "$sum"
	for f in "$TEST_DIR"/mnt/f*; do cmp "$TEST_DIR/random" "$f"; done
	unmount "$TEST_DIR/mnt"
}

# No device, mount, process or file of ours.
nothing_left() {
	local f
	for f in /sys/block/loop*/loop/backing_file; do
		[ -e "$f" ] || continue
		case $(cat "$f" 2>/dev/null) in
		"$TEST_DIR"/*) echo "left: $f"; return 1 ;;
		esac
	done
	case ${device:-} in /dev/mapper/*)
		[ ! -e "$device" ] || { echo "left: $device"; return 1; }
		;;
	esac
	! grep -F "$STATE" /proc/self/mountinfo || return 1
	! pgrep -af "trib-nbd .*$STATE" || return 1
	[ -z "$(ls "$STATE" 2>/dev/null)" ] || { ls -la "$STATE"; return 1; }
}
