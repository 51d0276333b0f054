# SPDX-License-Identifier: Apache-2.0
# For tests of the CSI driver on three hosts: `. tests/csi_lib.sh` after
# lib.sh. Cluster and drivers are up when it returns; each host has a pool of
# $POOL.
. "$TOP/tests/cluster.sh"
need_root
need ip nsenter losetup mkfs.ext4 findmnt strace

POOL=640MiB
MIB=1048576
C=$TEST_DIR/c
at_exit cluster_stop
at_exit drivers_stop
cluster_start "$C" 3 $POOL || { cluster_stop; exit 1; }

# ---- the driver on each host ----

# DRIVER_PREFIX: words before the program; its pid has to stay the program's.
DRIVER_PREFIX=()
driver_start() { # HOST [OPTION...]
	local dir=$C/host$1
	nsenter --net="/run/netns/$CLUSTER_NET$1" \
		"${DRIVER_PREFIX[@]}" trib-csi --endpoint "unix://$dir/csi.sock" --node "host$1" \
		--store "local:$C/records.db" --run-dir "$dir/run" \
		--kata-run-dir "$dir/kata" --call-timeout-ms 2000 --log-level debug "${@:2}" \
		>>"$dir/csi.log" 2>&1 &
	echo $! >"$dir/csi.pid"
	disown
	eventually 10 csi "$1" Identity/Probe
}
driver_signal() { # HOST SIGNAL: and wait for its end
	local pid i
	pid=$(cat "$C/host$1/csi.pid" 2>/dev/null) || return 0
	kill "-$2" "$pid" 2>/dev/null || return 0
	for ((i = 0; i < 300; i++)); do
		kill -0 "$pid" 2>/dev/null || break
		sleep 0.05
	done
	rm -f "$C/host$1/csi.pid"
}
drivers_stop() {
	local i
	for i in 1 2 3; do driver_signal $i TERM; done
	findmnt -rno TARGET | grep "^$C/" | sort -r | while read -r i; do
		umount -l "$i"
	done
}

# csi HOST SERVICE/METHOD FIELD=VALUE...
# (EXEC=exec; csi ...) &: $! is the client, not a shell around it
EXEC=
csi() { $EXEC "$BUILD/test/csi/csi_call_main" "unix://$C/host$1/csi.sock" "${@:2}"; }

CAP=(volume_capability.mount.fs_type= volume_capability.access_mode.mode=1)
cap() { CAP=("volume_capability.mount.fs_type=" "volume_capability.access_mode.mode=$1"); }

create() { # HOST NAME MIB FIELD...: prints the id
	csi "$1" Controller/CreateVolume "name=$2" \
		"capacity_range.required_bytes=$(($3 * MIB))" \
		volume_capabilities.mount.fs_type= \
		volume_capabilities.access_mode.mode=1 "${@:4}" >"$TEST_DIR/out" || {
		cat "$TEST_DIR/out"
		return 1
	}
	sed -n 's/.*volume_id="\([^"]*\)".*/\1/p' "$TEST_DIR/out"
}
staging() { mkdir -p "$C/host$1/staging/$2"; echo "$C/host$1/staging/$2"; }
# What a controller, on another host, does before and after: for HOST
cpublish() { # HOST ID FIELD...
	csi 3 Controller/ControllerPublishVolume "volume_id=$2" "node_id=host$1" \
		"${CAP[@]}" "${@:3}"
}
cunpublish() { # HOST ID
	csi 3 Controller/ControllerUnpublishVolume "volume_id=$2" "node_id=host$1"
}
node_stage() { # HOST NAME ID FIELD...
	csi "$1" Node/NodeStageVolume "volume_id=$3" \
		"staging_target_path=$(staging "$1" "$2")" "${CAP[@]}" "${@:4}"
}
node_unstage() { # HOST NAME ID
	csi "$1" Node/NodeUnstageVolume "volume_id=$3" \
		"staging_target_path=$(staging "$1" "$2")"
}
# Both, as an orchestrator calls them. What cannot be published is not staged
# either, which says why.
stage() { # HOST NAME ID FIELD...
	EXEC='' cpublish "$1" "$3" >/dev/null || true
	node_stage "$@"
}
unstage() { # HOST NAME ID
	if [ -n "$EXEC" ]; then node_unstage "$@"; fi
	node_unstage "$@" || return
	# Something of it is still staged here: not what was meant.
	[ -e "$C/host$1/run/csi/${3%@*}.volume" ] || cunpublish "$1" "$3"
}
target() { mkdir -p "$C/host$1/pods"; echo "$C/host$1/pods/$2"; }
publish() { # HOST NAME ID TARGET FIELD...
	csi "$1" Node/NodePublishVolume "volume_id=$3" \
		"staging_target_path=$(staging "$1" "$2")" \
		"target_path=$(target "$1" "$4")" "${CAP[@]}" "${@:5}"
}
unpublish() {
	csi "$1" Node/NodeUnpublishVolume "volume_id=$2" \
		"target_path=$(target "$1" "$3")"
}
stats() { # HOST ID PATH
	csi "$1" Node/NodeGetVolumeStats "volume_id=$2" "volume_path=$3"
}
delete() { csi "$1" Controller/DeleteVolume "volume_id=$2"; }

# Everything of volume NAME, however far a test came.
scrap() {
	local i t id=$1
	cap 1
	for i in 1 2 3; do
		[ -f "$C/host$i/blockd.pid" ] || blockd_start "$i"
		[ -f "$C/host$i/csi.pid" ] || driver_start "$i"
		for t in "$C/host$i"/pods/*; do
			[ ! -e "$t" ] || unpublish "$i" "$id" "${t##*/}"
		done
		unstage "$i" "$1" "$id"
		on "$i" trib umount --force "$1"
	done
	csi 3 Controller/ControllerUnpublishVolume "volume_id=$id"
	delete 1 "$id"
}
volume() { at_exit scrap "$1"; }

# count TEXT: lines of standard input with it
count() { awk -v text="$1" 'index($0, text) {n++} END {print n + 0}'; }
# lacks FILE PATTERN
lacks() { ! grep -qaE -- "$2" "$1" || fail "$1 has '$2'"; }
# The union of volume NAME on host1.
union_pid() {
	local p line
	for p in /proc/[0-9]*; do
		line=$({ tr '\0' ' ' <"$p/cmdline"; } 2>/dev/null) || continue
		case $line in *trib-union*"$C/host1/staging/$1 "*) echo "${p#/proc/}" ;; esac
	done
}

nothing_left() {
	same "$(findmnt -rno TARGET | count "$C/")" 0 "mounts"
	same "$(losetup -nl -O BACK-FILE | count "$C/")" 0 "loop devices"
	same "$(find "$C"/host?/run/csi -name '*.volume' 2>/dev/null)" ""
	same "$(find "$C" -path '*/pods/*')" ""
	same "$(find "$C"/host?/pool/extents -name '*.data')" ""
	same "$(on 1 trib volume list --json | tr -d ' \n')" "[]"
}

fill() {
	local i
	mkdir -p "$1/d"
	for i in 1 2 3 4 5 6; do
		head -c $((i * 300000)) /dev/urandom >"$1/d/$i"
	done
	(cd "$1" && sha256sum d/[1-6] >sums)
	sync -f "$1/sums"
}
check() { (cd "$1" && sha256sum --quiet -c sums); }

for i in 1 2 3; do driver_start $i; done

# writer_start DIR, writer_stop DIR: files and their checksums, without pause
writer_start() {
	mkdir -p "$1/w"
	rm -f "$TEST_DIR/stop" "$TEST_DIR/errors"
	(
		set +e
		n=0
		while [ ! -e "$TEST_DIR/stop" ]; do
			n=$((n + 1))
			head -c 300000 /dev/urandom >"$TEST_DIR/w" &&
				dd if="$TEST_DIR/w" of="$1/w/$((n % 20))" bs=64k \
					conv=fsync 2>/dev/null &&
				(cd "$TEST_DIR" && sha256sum w) |
				sed "s, w\$, w/$((n % 20))," >"$1/w/$((n % 20)).sum" ||
				echo "write $n failed" >>"$TEST_DIR/errors"
			echo $n >"$TEST_DIR/written"
		done
	) &
	WRITER=$!
	at_exit touch "$TEST_DIR/stop"
	eventually 10 test -s "$1/w/3.sum"
}
writer_stop() {
	touch "$TEST_DIR/stop"
	wait $WRITER
	[ ! -e "$TEST_DIR/errors" ] || fail "$(cat "$TEST_DIR/errors")"
	[ "$(cat "$TEST_DIR/written")" -gt 3 ]
	(cd "$1" && sha256sum --quiet -c w/*.sum)
}
