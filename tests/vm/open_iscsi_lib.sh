# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# open-iscsi for tests in a virtual machine. On the host, before inside_vm:
#
#   fetch_open_iscsi    skips the test when the package cannot be fetched
#
# and in the guest:
#
#   start_open_iscsi    put it into the guest's root and start iscsid
_vm_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

fetch_open_iscsi() {
	local said
	[ "${TRIB_VM:-}" != 1 ] || return 0
	said=$("$_vm_dir/fetch_open_iscsi" 2>&1) || {
		echo "no open-iscsi: ${said##*$'\n'}"
		exit 77
	}
}

start_open_iscsi() {
	local tree=${VM_CACHE:-$TOP/build/vm}/open-iscsi
	modprobe iscsi_tcp || skip_all "the guest's kernel has no iscsi_tcp"
	modprobe sd_mod
	[ -e /sys/class/iscsi_transport/tcp ] || skip_all "iscsi_tcp shows nothing in sysfs"
	cp -a "$tree/sbin/." /usr/sbin/
	cp -a "$tree/usr/lib/." /usr/lib/
	mkdir -p /etc/iscsi /run/lock/iscsi
	cp "$tree/etc/iscsi/iscsid.conf" /etc/iscsi/
	echo "InitiatorName=iqn.2025-01.io.union:guest" >/etc/iscsi/initiatorname.iscsi
	ldconfig
	# In a session of its own: at its end it kills its process group.
	setsid iscsid -f >"$TEST_DIR/iscsid.log" 2>&1 &
	at_exit kill $!
	eventually 30 grep -q ISCSIADM_ABSTRACT_NAMESPACE /proc/net/unix
}
