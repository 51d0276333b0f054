# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# For tests that run inside a virtual machine. Their first lines:
#
#   . "$(dirname "$0")/lib.sh"
#   inside_vm -m 768 -d disk:1G -- "$@"
#
# On the host inside_vm boots a machine (options as of tests/vm/run; a disk
# "NAME:SIZE" is a new sparse file, removed afterwards) that runs this same
# test, and passes its output and exit code on; it skips the test where there
# can be no machine. In the guest it sources tests/lib.sh and goes on. Only a
# machine that hangs reaches its limit, $VM_SECONDS.
#
# A test that needs packages in the guest, which are not installed on the host,
# has before inside_vm
#
#   fetch_packages NAME [-n] [-x REGEX] PACKAGE...
#
# (tests/vm/fetch_packages), which skips the test when one cannot be fetched. Behind
# inside_vm put_packages NAME copies them into the guest's root.
fetch_packages() {
	local said
	[ "${TRIB_VM:-}" != 1 ] || return 0
	said=$("$(dirname "${BASH_SOURCE[0]}")/fetch_packages" "$@" 2>&1) || {
		echo "no $1: ${said##*$'\n'}"
		exit 77
	}
}

put_packages() {
	local tree=${VM_CACHE:-$TOP/build/vm}/$1 part
	for part in bin sbin lib usr/bin usr/sbin usr/lib etc var; do
		[ -d "$tree/$part" ] || continue
		mkdir -p "/$part"
		cp -a "$tree/$part/." "/$part/"
	done
	ldconfig
}

inside_vm() {
	local top dir fetched options=(-t "${VM_SECONDS:-2300}") disk
	top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
	if [ "${TRIB_VM:-}" = 1 ]; then
		while [ "$1" != -- ]; do shift; done
		shift
		. "$top/tests/lib.sh"
		return
	fi
	[ "$(id -u)" = 0 ] || { echo "needs root"; exit 77; }
	fetched=$("$top/tests/vm/fetch" 2>&1) || {
		echo "no virtual machine: ${fetched##*$'\n'}"
		exit 77
	}
	# Not in a folder that may be in memory.
	dir=$(mktemp -d "${VM_CACHE:-$top/build/vm}/disks.XXXXXX") || exit
	# shellcheck disable=SC2064
	trap "rm -rf '$dir'" EXIT
	trap 'exit 130' INT TERM HUP
	while [ "$1" != -- ]; do
		if [ "$1" = -d ]; then
			disk=$dir/${2%:*}
			truncate -s "${2#*:}" "$disk"
			options+=(-d "$disk")
			shift 2
		else
			options+=("$1")
			shift
		fi
	done
	shift
	options+=(-- "$top/tests/vm/$(basename "$0")" "$@")
	[ -z "${known_panic:-}" ] || run_again_after "$dir"
	"$top/tests/vm/run" "${options[@]}" &
	wait $!
	exit $?
}

# known_panic=FUNCTION, set before inside_vm: a fault of the guest's kernel. A machine
# that panics in it, or in what it calls, says nothing of us. So the script runs again in
# another one, and is skipped when three have panicked.
run_again_after() { # DIRECTORY
	local try rc
	for try in 1 2 3; do
		"$top/tests/vm/run" "${options[@]}" >"$1/said" 2>"$1/errors" &
		wait $!
		rc=$?
		[ $rc = 125 ] && grep -q "[ :]$known_panic+0x" "$1/errors" || break
		echo "# the guest's kernel panicked in $known_panic()"
		[ $try != 3 ] || {
			echo "the guest's kernel panicked three times in $known_panic()"
			exit 77
		}
	done
	cat "$1/errors" >&2
	cat "$1/said"
	exit $rc
}
