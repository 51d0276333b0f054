# SPDX-License-Identifier: Apache-2.0
# For tests of the CSI driver: `. tests/csi/lib.sh` after lib.sh. Hosts as
# namespaces with a blockd each (tests/cluster.sh) and a driver:
#
#   csi_start HOSTS POOL_SIZE        # below $C; STORE: their store;
#                                    # CALL_TIMEOUT_MS: of calls to nodes
#   csi HOST SERVICE/METHOD FIELD=VALUE...
#   once COMMAND...                  # with ABORTED and UNAVAILABLE as answers
#
# Everything is taken down at the end.
. "$TOP/tests/cluster.sh"
need_root
need ip nsenter losetup mkfs.ext4 findmnt strace

MIB=1048576
C=$TEST_DIR/c
STORE=${STORE:-local:$C/records.db}

# ---- the driver on each host ----

# DRIVER_PREFIX: words before the program; its pid has to stay the program's.
# DRIVER_OPTIONS: of each of them, also when it is started again.
DRIVER_PREFIX=() DRIVER_OPTIONS=()
driver_start() { # HOST [OPTION...]
	local dir=$C/host$1
	nsenter --net="/run/netns/$CLUSTER_NET$1" \
		"${DRIVER_PREFIX[@]}" trib-csi --endpoint "unix://$dir/csi.sock" --node "host$1" \
		--store "$STORE" --run-dir "$dir/run" \
		--kata-run-dir "$dir/kata" --call-timeout-ms "${CALL_TIMEOUT_MS:-10000}" --log-level debug \
		"${DRIVER_OPTIONS[@]}" "${@:2}" \
		>>"$dir/csi.log" 2>&1 &
	echo $! >"$dir/csi.pid"
	disown
	eventually 30 csi "$1" Identity/Probe
}
driver_signal() { signal_daemon "$C/host$1/csi.pid" "$2"; } # HOST SIGNAL
drivers_stop() {
	local i
	for ((i = 1; i <= CLUSTER_HOSTS; i++)); do driver_signal $i TERM; done
	unmount_hosts
}
csi_start() { # HOSTS POOL_SIZE
	local i
	at_exit cluster_stop
	at_exit drivers_stop
	cluster_start "$C" "$1" "$2" || exit 1
	for ((i = 1; i <= CLUSTER_HOSTS; i++)); do driver_start $i; done
}

# csi HOST SERVICE/METHOD FIELD=VALUE...
# A call that is ABORTED or UNAVAILABLE is sent again, as Kubernetes does: the
# leader may just note the health of that volume, and a node may answer late.
# (EXEC=exec; csi ...) &: $! is the client, not a shell around it
EXEC=
export CSI_AGAIN_S=60
once() { CSI_AGAIN_S=0 "$@"; }
csi() { $EXEC "$BUILD/test/csi/testkit/csi_call_main" "unix://$C/host$1/csi.sock" "${@:2}"; }

# After a failure: what daemons and drivers said, and what there is.
say_more() {
	cluster_said 8
	echo "--- volumes, devices, mounts, at $(date +%T)"
	on 1 trib volume list 2>&1
	losetup -nl -O NAME,BACK-FILE | grep "$C/"
	findmnt -rno TARGET,SOURCE | grep "$C/"
}

# ---- calls, of volumes by name ----

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
	# The first: the id of a volume that it was made of comes behind it.
	grep -o 'volume_id="[^"]*"' "$TEST_DIR/out" | sed -n '1s/.*"\(.*\)"/\1/p'
}
attach() { # HOST ID NODE FIELD...
	csi "$1" Controller/ControllerPublishVolume "volume_id=$2" "node_id=$3" \
		"${CAP[@]}" "${@:4}"
}
detach() { # HOST ID [NODE]
	csi "$1" Controller/ControllerUnpublishVolume "volume_id=$2" ${3:+"node_id=$3"}
}
staging() { mkdir -p "$C/host$1/staging/$2"; echo "$C/host$1/staging/$2"; }
stage() { # HOST NAME ID FIELD...
	csi "$1" Node/NodeStageVolume "volume_id=$3" \
		"staging_target_path=$(staging "$1" "$2")" "${CAP[@]}" "${@:4}"
}
unstage() { # HOST NAME ID
	csi "$1" Node/NodeUnstageVolume "volume_id=$3" \
		"staging_target_path=$(staging "$1" "$2")"
}
target() { mkdir -p "$C/host$1/pods"; echo "$C/host$1/pods/$2"; }
publish() { # HOST NAME ID TARGET FIELD...
	csi "$1" Node/NodePublishVolume "volume_id=$3" \
		"staging_target_path=$(staging "$1" "$2")" \
		"target_path=$(target "$1" "$4")" "${CAP[@]}" "${@:5}"
}
unpublish() { # HOST ID TARGET
	csi "$1" Node/NodeUnpublishVolume "volume_id=$2" \
		"target_path=$(target "$1" "$3")"
}
expand() { # HOST ID MIB
	csi "$1" Controller/ControllerExpandVolume "volume_id=$2" \
		"capacity_range.required_bytes=$(($3 * MIB))" "${CAP[@]}"
}
node_expand() { # HOST NAME ID TARGET
	csi "$1" Node/NodeExpandVolume "volume_id=$3" \
		"volume_path=$(target "$1" "$4")" \
		"staging_target_path=$(staging "$1" "$2")" "${CAP[@]}"
}
stats() { # HOST ID PATH
	csi "$1" Node/NodeGetVolumeStats "volume_id=$2" "volume_path=$3"
}
delete() { csi "$1" Controller/DeleteVolume "volume_id=$2"; }

# Everything of volume NAME, however far a test came.
scrap() {
	local i t
	cap 1
	for ((i = 1; i <= CLUSTER_HOSTS; i++)); do
		[ -f "$C/host$i/blockd.pid" ] || blockd_start "$i"
		[ -f "$C/host$i/csi.pid" ] || driver_start "$i"
		for t in "$C/host$i"/pods/*; do
			[ ! -e "$t" ] || unpublish "$i" "$1" "${t##*/}"
		done
		unstage "$i" "$1" "$1"
		on "$i" trib umount --force "$1"
	done
	detach 1 "$1"
	delete 1 "$1"
}
volume() { at_exit scrap "$1"; }

# ---- what there is ----

# lacks FILE PATTERN
lacks() { ! grep -qaE -- "$2" "$1" || fail "$1 has '$2'"; }
# Processes of host $1 whose program is $2, for volume $3 (any without).
pids_of() {
	local p line
	for p in /proc/[0-9]*; do
		line=$({ tr '\0' ' ' <"$p/cmdline"; } 2>/dev/null) || continue
		case $line in
		*"$2 "*"$C/host$1/"*"${3:-}"*) echo "${p#/proc/}" ;;
		esac
	done
}
orphans() { on "${1:-1}" trib volume orphans; }

nothing_left() {
	same "$(findmnt -rno TARGET | count "$C/")" 0 "mounts"
	same "$(losetup -nl -O BACK-FILE | count "$C/")" 0 "loop devices"
	same "$(find "$C"/host?/run/csi -name '*.volume' 2>/dev/null)" ""
	same "$(find "$C" -path '*/pods/*')" ""
	same "$(find "$C"/host?/pool/extents -name '*.data')" ""
	same "$(on 1 trib volume list --json | tr -d ' \n')" "[]"
}
