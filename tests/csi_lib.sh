# SPDX-License-Identifier: Apache-2.0
# For tests of the CSI driver on three hosts: `. tests/csi_lib.sh` after
# lib.sh. As tests/csi/lib.sh, but that cluster and drivers are up when it
# returns (each host has a pool of $POOL), and that to stage a volume does what
# a controller does before, too.
. "$TOP/tests/csi/lib.sh"
. "$TOP/tests/writer_lib.sh"
POOL=640MiB

# What a controller, on another host, does before and after: for HOST
cpublish() { attach 3 "$2" "host$1" "${@:3}"; } # HOST ID FIELD...
cunpublish() { detach 3 "$2" "host$1"; }        # HOST ID
eval "node_$(declare -f stage)"
eval "node_$(declare -f unstage)"
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
# The union of volume NAME on host1.
union_of() { echo "$C/host1/.*staging/$1"; }
union_pid() { union_supervisor "$(union_of "$1")"; }

csi_start 3 $POOL
