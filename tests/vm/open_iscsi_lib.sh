# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# open-iscsi for tests in a virtual machine. On the host, before inside_vm:
#
#   fetch_open_iscsi    skips the test when the package cannot be fetched
#
# and in the guest:
#
#   start_open_iscsi    put it into the guest's root and start iscsid
fetch_open_iscsi() {
	fetch_packages open-iscsi -n open-iscsi libopeniscsiusr libisns0 libsystemd0
}

start_open_iscsi() {
	modprobe iscsi_tcp || skip_all "the guest's kernel has no iscsi_tcp"
	modprobe sd_mod
	[ -e /sys/class/iscsi_transport/tcp ] || skip_all "iscsi_tcp shows nothing in sysfs"
	put_packages open-iscsi
	mkdir -p /run/lock/iscsi
	echo "InitiatorName=iqn.2025-01.io.union:guest" >/etc/iscsi/initiatorname.iscsi
	# In a session of its own: at its end it kills its process group.
	setsid iscsid -f >"$TEST_DIR/iscsid.log" 2>&1 &
	at_exit kill $!
	eventually 30 grep -q ISCSIADM_ABSTRACT_NAMESPACE /proc/net/unix
}
