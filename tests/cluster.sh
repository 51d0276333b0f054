# SPDX-License-Identifier: Apache-2.0
# Several hosts on one machine: each a network namespace with an address of its
# own on a bridge (in a namespace of its own), with a blockd, a pool, a
# configuration and a run directory under one directory.
#
#   . tests/cluster.sh
#   cluster_start DIR HOSTS POOL_SIZE   # "2GiB"; hosts are host1, host2...
#   on 2 COMMAND...                     # run on host2
#   cluster_stop                        # also after a start that failed
#   cluster_said                        # the ends of the daemons' logs
#
# Where CLUSTER_STORE names a store, records are kept there. One that needs the
# network starts between `cluster_network DIR HOSTS` and cluster_start; its
# namespace is "${CLUSTER_NET}sw", where the bridge is br0.
#
# TRIB_CONFIG is set for what runs by `on`, so a plain `trib` talks as that
# host. Hosts see 10.77.0.NUMBER. Processes and mounts are visible to all: a
# FUSE mount made by `on` is seen from outside (nsenter --net, no mount
# namespace).
CLUSTER_DIR= CLUSTER_HOSTS=0 CLUSTER_NET= CLUSTER_STORE=

on() {
	local host=$1
	shift
	nsenter --net="/run/netns/$CLUSTER_NET$host" \
		env TRIB_CONFIG="$CLUSTER_DIR/host$host/trib.conf" "$@"
}

# The namespaces, their links and addresses.
cluster_network() {
	local i
	CLUSTER_DIR=$1 CLUSTER_HOSTS=$2
	CLUSTER_NET=trib$$-
	mkdir -p "$CLUSTER_DIR"
	echo "$CLUSTER_NET $CLUSTER_HOSTS" >"$CLUSTER_DIR/cluster"
	ip netns add "${CLUSTER_NET}sw"
	ip -n "${CLUSTER_NET}sw" link add br0 type bridge
	ip -n "${CLUSTER_NET}sw" link set br0 up
	for ((i = 1; i <= CLUSTER_HOSTS; i++)); do
		ip netns add "$CLUSTER_NET$i"
		ip link add eth0 netns "$CLUSTER_NET$i" type veth \
			peer name "port$i" netns "${CLUSTER_NET}sw"
		ip -n "${CLUSTER_NET}sw" link set "port$i" master br0 up
		ip -n "$CLUSTER_NET$i" addr add "10.77.0.$i/24" dev eth0
		ip -n "$CLUSTER_NET$i" link set eth0 up
		ip -n "$CLUSTER_NET$i" link set lo up
	done
}

# The directories and configuration of host $1.
_cluster_configure() {
	local dir=$CLUSTER_DIR/host$1
	mkdir -p "$dir/run" "$dir/state" "$dir/pool" "$dir/mnt"
	cat >"$dir/blockd.conf" <<-E
		node-name = host$1
		control = unix:$dir/run/blockd.sock
		listen = tcp:10.77.0.$1:10809
		state-dir = $dir/state
		run-dir = $dir/run
	E
	cat >"$dir/trib.conf" <<-E
		store = ${CLUSTER_STORE:-local:$CLUSTER_DIR/records.db}
		node = host$1
		run-dir = $dir/run
	E
}

# In a session of its own: what ends this script's process group (Ctrl-C, a
# timeout) must leave it, for cluster_stop() unmounts with its help.
_blockd_spawn() {
	local dir=$CLUSTER_DIR/host$1
	# Not by on(): its pid must be blockd's. Without job control, or setsid
	# would be the leader of a group, fork and end.
	(
		set +m
		setsid nsenter --net="/run/netns/$CLUSTER_NET$1" \
			blockd --config "$dir/blockd.conf" >>"$dir/blockd.log" 2>&1 &
		echo $! >"$dir/blockd.pid"
	)
}

# blockd_start HOST: returns once it answers
blockd_start() {
	_blockd_spawn "$1"
	# The call waits for the server to be there.
	on "$1" trib pool list "host$1" >/dev/null 2>&1 && return 0
	cat "$CLUSTER_DIR/host$1/blockd.log" >&2
	return 1
}

# signal_daemon PIDFILE SIGNAL [WORDS]: and wait for its end, unless that is STOP or
# CONT. A daemon that ended by itself may have left its number to another process:
# its own words have the folder of PIDFILE, or WORDS.
signal_daemon() {
	local pid i
	pid=$(cat "$1" 2>/dev/null) || return 0
	grep -qsF -- "${3-${1%/*}/}" "/proc/$pid/cmdline" || return 0
	kill "-$2" "$pid" 2>/dev/null || return 0
	case $2 in
	STOP) stand_still "$pid"; return 0 ;;
	CONT) return 0 ;;
	esac
	for ((i = 0; i < 600; i++)); do
		kill -0 "$pid" 2>/dev/null || { rm -f "$1"; return 0; }
		sleep 0.05
	done
	echo "$1: it does not end by SIG$2" >&2
	kill -KILL "$pid"
	return 1
}
blockd_signal() { signal_daemon "$CLUSTER_DIR/host$1/blockd.pid" "$2"; } # HOST SIGNAL

cluster_start() {
	local i
	[ -n "$CLUSTER_NET" ] || cluster_network "$1" "$2" || return 1
	for ((i = 1; i <= CLUSTER_HOSTS; i++)); do
		_cluster_configure "$i"
		_blockd_spawn "$i"
	done
	for ((i = 1; i <= CLUSTER_HOSTS; i++)); do
		if ! on "$i" trib node add "host$i" \
			--control "unix:$CLUSTER_DIR/host$i/run/blockd.sock" \
			--data "10.77.0.$i:10809" --quiet ||
			! on "$i" trib pool create main "$CLUSTER_DIR/host$i/pool" \
				--capacity "$3" --quiet; then
			cat "$CLUSTER_DIR/host$i/blockd.log" >&2
			return 1
		fi
	done
}

# What the daemons said last, the notes of their work left out; for say_more.
cluster_said() {
	local log
	for log in "$CLUSTER_DIR"/host?/*.log "$CLUSTER_DIR"/host?/run/initiator/*.log; do
		[ -s "$log" ] || continue
		echo "--- ${log#"$CLUSTER_DIR"/}"
		grep -v debug "$log" | tail -n "${1:-8}" | cut -c -400
	done
}
say_more() { cluster_said; }

# For tests of volumes.

# count TEXT: lines of standard input with it
count() { awk -v text="${1:?nothing to look for}" 'index($0, text) {n++} END {print n + 0}'; }

# The directory where HOST mounts NAME.
mnt() { mkdir -p "$C/host$1/mnt/$2"; echo "$C/host$1/mnt/$2"; }

# Unmount what is left on any host, the innermost first.
unmount_hosts() {
	findmnt -rno TARGET | grep "^$C/" | sort -r | xargs -r -n 1 umount -l
}

# fill DIR, check DIR: files on every branch, with their checksums
fill() {
	local i
	mkdir -p "$1/d/e"
	for i in 1 2 3 4 5 6 7 8; do
		head -c $((i * 300000)) /dev/urandom >"$1/d/$i"
	done
	ln -sfn 1 "$1/d/link"
	(cd "$1" && sha256sum d/[1-8] >sums)
	# The kernel does not pass syncfs() on to a FUSE server: fsync each.
	sync "$1/sums" "$1"/d/[1-8] "$1/d" "$1"
}
check() { (cd "$1" && sha256sum --quiet -c sums); }

# The cluster that another shell left running in DIR.
cluster_open() {
	CLUSTER_DIR=$1
	read -r CLUSTER_NET CLUSTER_HOSTS <"$CLUSTER_DIR/cluster"
}

# Take everything down: volumes still mounted, daemons, namespaces. Leaves DIR.
cluster_stop() {
	local i name
	for ((i = 1; i <= CLUSTER_HOSTS; i++)); do
		[ -e "/run/netns/$CLUSTER_NET$i" ] || continue
		on "$i" trib volume list --json 2>/dev/null |
			grep -oE '"name": *"[^"]+"' | cut -d'"' -f4 | sort -u |
			while read -r name; do
				on "$i" trib umount --force "$name" >/dev/null 2>&1
			done
		on "$i" trib devices 2>/dev/null | awk 'NR > 1 {print $2}' |
			while read -r name; do
				on "$i" trib detach "$name" >/dev/null 2>&1
			done
	done
	for ((i = 1; i <= CLUSTER_HOSTS; i++)); do
		blockd_signal "$i" TERM
	done
	for i in sw $(seq "$CLUSTER_HOSTS"); do
		ip netns del "$CLUSTER_NET$i" 2>/dev/null
	done
	CLUSTER_HOSTS=0 CLUSTER_NET=
}
