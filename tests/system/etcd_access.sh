#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Hosts that an etcd with certificates, or with users, lets in or not.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/cluster.sh"
. "$TOP/tests/etcd_lib.sh"
need_root
need etcd etcdctl losetup mkfs.ext4 openssl

test_only_trusted_clients_are_served_by_tls() {
	C=$(mktemp -d "$TEST_DIR/XXXX")
	mkdir -p "$C/etcd"
	etcd_certificates "$C/etcd" 127.0.0.1
	ETCD_TLS=1
	local own=cert=$C/etcd/client.pem,key=$C/etcd/client.key
	STORE=etcd:/trib,endpoint=https://127.0.0.1:2179,ca=$C/etcd/ca.pem,$own
	members 1
	trib volume create v --size 64MiB --quiet
	fails 8 "no trust" trib volume list --store "$(etcd_store)"
	fails 8 "no trust" trib volume list \
		--store "etcd:/trib,endpoint=https://127.0.0.1:2179,$own"
	fails 7 "" trib volume list --store etcd:/trib,endpoint=http://127.0.0.1:2179
	# Its certificate is for an address.
	fails 8 "no trust" trib volume list \
		--store "etcd:/trib,endpoint=https://localhost:2179,ca=$C/etcd/ca.pem,$own"
	trib volume delete v --quiet
}

test_a_user_needs_its_password_and_no_more_than_the_prefix() {
	local secret=very-secret-4711 store
	members 1
	ctl user add root:rootword
	ctl user grant-role root root
	ctl role add trib
	ctl role grant-permission trib --prefix=true readwrite /trib/
	ctl user add trib:$secret
	ctl user grant-role trib trib
	ctl auth enable
	ETCD_USER=(--user root:rootword)
	echo $secret >"$TEST_DIR/password"
	echo wrong-4711 >"$TEST_DIR/wrong"
	fails 8 "user" trib volume list
	store=$(etcd_store user=trib "password-file=$TEST_DIR/password")
	sed -i "s|^store = .*|store = $store|" "$C/host1/trib.conf"
	watcher
	trib volume create v --size 64MiB --quiet
	eventually 30 grep -q '^v .*Ready' "$TEST_DIR/watch"
	fails 8 "does not accept our user" trib volume list \
		--store "$(etcd_store user=trib "password-file=$TEST_DIR/wrong")"
	fails 8 "password-file" trib volume list \
		--store "$(etcd_store user=trib "password-file=$TEST_DIR/none")"
	fails 8 "grant" trib volume list --store \
		"$(ETCD_PREFIX=/else etcd_store user=trib "password-file=$TEST_DIR/password")"
	# Its tokens end with the member; who watches gets a new one.
	etcd_signal 1 KILL
	etcd_start 1
	etcd_well
	trib volume create w --size 64MiB --quiet
	eventually 60 grep -q '^w .*Ready' "$TEST_DIR/watch"
	trib volume delete v --quiet
	! grep -rF -e "$secret" -e wrong-4711 "$C/host1" "$TEST_DIR"/watch* "$C"/etcd/*.log || false
}

run_tests "$@"
