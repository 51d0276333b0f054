# SPDX-License-Identifier: Apache-2.0
# Members of an etcd in one network namespace: Debian's program, data in memory.
#
#   . tests/cluster.sh; . tests/etcd_lib.sh
#   cluster_network DIR HOSTS
#   etcd_begin DIR NAMESPACE ADDRESS MEMBERS [OPTION...]   # starts none
#   etcd_start N; etcd_signal N SIGNAL; etcd_end           # member 1 to MEMBERS
#   etcd_well [N...]                                       # waits; default all
#   etcd_store [WORD...]                                   # a store's location
#   ctl COMMAND...                                         # etcdctl, any member
#   members MEMBERS [OPTION...]     # or all of that for one host, undone at exit
#
# Member N listens at ADDRESS:2N79. With ETCD_TLS=1 set before etcd_begin,
# etcd_certificates has made the files there, and clients need one.
ETCD_DIR= ETCD_NET= ETCD_ADDRESS= ETCD_MEMBERS=0 ETCD_OPTIONS=() ETCD_TLS=${ETCD_TLS:-}
ETCD_USER=()

etcd_url() { echo "http${ETCD_TLS:+s}://$ETCD_ADDRESS:2${1}79"; }

# etcd_certificates DIR ADDRESS: ca.pem, server.pem, client.pem and their keys
etcd_certificates() {
	local new="openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes" name
	(
		cd "$1" || exit 1
		$new -x509 -days 2 -subj /CN=test-ca -keyout ca.key -out ca.pem
		for name in server client; do
			# With users, etcd takes no client's certificate with a CN.
			$new -subj /O=$name -keyout $name.key -out $name.csr
			openssl x509 -req -in $name.csr -CA ca.pem -CAkey ca.key -days 2 \
				-CAcreateserial -out $name.pem -extfile <(
				echo subjectAltName=IP:"$2"
				echo extendedKeyUsage=serverAuth,clientAuth
			)
		done
	) >"$1/openssl.log" 2>&1
}

etcd_begin() {
	ETCD_DIR=$1 ETCD_NET=$2 ETCD_ADDRESS=$3 ETCD_MEMBERS=$4
	ETCD_OPTIONS=("${@:5}") ETCD_USER=()
	mkdir -p "$ETCD_DIR/data"
	mount -t tmpfs tmpfs "$ETCD_DIR/data"
}

etcd_start() { # MEMBER
	local i peers=
	for ((i = 1; i <= ETCD_MEMBERS; i++)); do
		peers=$peers,m$i=http://127.0.0.1:2${i}80
	done
	local words=(--name "m$1" --data-dir "$ETCD_DIR/data/$1" --logger zap
		--listen-client-urls "$(etcd_url "$1")" --advertise-client-urls "$(etcd_url "$1")"
		--listen-peer-urls "http://127.0.0.1:2${1}80" --initial-cluster "${peers#,}"
		--initial-advertise-peer-urls "http://127.0.0.1:2${1}80")
	[ -z "$ETCD_TLS" ] || words+=(--client-cert-auth --trusted-ca-file "$ETCD_DIR/ca.pem"
		--cert-file "$ETCD_DIR/server.pem" --key-file "$ETCD_DIR/server.key")
	nsenter --net="/run/netns/$ETCD_NET" etcd "${words[@]}" "${ETCD_OPTIONS[@]}" \
		>>"$ETCD_DIR/etcd$1.log" 2>&1 &
	echo $! >"$ETCD_DIR/$1.pid"
}
etcd_signal() { signal_daemon "$ETCD_DIR/$1.pid" "$2" "$ETCD_DIR/data/$1"; }

etcd_end() {
	local i
	for ((i = 1; i <= ETCD_MEMBERS; i++)); do
		etcd_signal "$i" KILL
	done
	umount -l "$ETCD_DIR/data"
}

ctl() {
	local i all= trust=()
	for ((i = 1; i <= ETCD_MEMBERS; i++)); do
		all=$all,$(etcd_url "$i")
	done
	[ -z "$ETCD_TLS" ] || trust=(--cacert "$ETCD_DIR/ca.pem" --cert "$ETCD_DIR/client.pem"
		--key "$ETCD_DIR/client.key")
	ETCDCTL_API=3 nsenter --net="/run/netns/$ETCD_NET" etcdctl \
		--endpoints "${ETCD_ONE:-${all#,}}" "${trust[@]}" "${ETCD_USER[@]}" "$@"
}

# Wait until each answers with a leader. `get` asks the leader; `endpoint health`, too, but as nobody.
etcd_well() {
	local i
	[ $# -gt 0 ] || set -- $(seq "$ETCD_MEMBERS")
	for i; do
		ETCD_ONE=$(etcd_url "$i") eventually 60 ctl get /well
	done
}

etcd_store() {
	local i all=${ETCD_PREFIX-/trib}
	for ((i = 1; i <= ETCD_MEMBERS; i++)); do
		all=$all,endpoint=$(etcd_url "$i")
	done
	for i; do all=$all,$i; done
	[ -z "$ETCD_TLS" ] || all=$all,ca=$ETCD_DIR/ca.pem
	echo "etcd:$all"
}

# ---- one host whose records are in an etcd of its own ----

say_more() {
	cluster_said
	tail -n 5 "$ETCD_DIR"/*.log | cut -c -300
}
trib() { on 1 trib "$@"; }
# The same, begun: $! is the program's own number.
begin_trib() { # FILE COMMAND...
	nsenter --net="/run/netns/${CLUSTER_NET}1" env TRIB_CONFIG="$C/host1/trib.conf" \
		trib "${@:2}" >"$1" 2>"$1.err" &
	at_exit kill $!
}
# Taking volumes down needs their records: members that a test ended come back first.
cluster_end() {
	local i
	for ((i = 1; i <= ETCD_MEMBERS; i++)); do
		etcd_signal "$i" CONT
		kill -0 "$(cat "$ETCD_DIR/$i.pid")" || etcd_start "$i"
	done
	(etcd_well) # or not: the rest goes on
	cluster_stop
	etcd_end
}

# members N [OPTION...]: a new etcd, and a host that keeps its records there
members() {
	local i
	C=${C:-$(mktemp -d "$TEST_DIR/XXXX")}
	cluster_network "$C" 1
	at_exit cluster_end
	etcd_begin "$C/etcd" "${CLUSTER_NET}1" 127.0.0.1 "$@"
	for ((i = 1; i <= $1; i++)); do etcd_start "$i"; done
	etcd_well
	CLUSTER_STORE=${STORE-$(etcd_store)}
	cluster_start "$C" 1 512MiB
}

conforms() { # PREFIX
	CMOCKA_MESSAGE_OUTPUT=STDOUT on 1 "$BUILD/test/tests/kube/store_conforms" \
		"$(ETCD_PREFIX=$1 etcd_store)"
}

keys() { ctl get --prefix --keys-only /trib/ | grep -c "$1" || true; }

# watcher: `trib status --watch`, whose output is in $TEST_DIR/watch
watcher() {
	begin_trib "$TEST_DIR/watch" status --watch
	watcher=$!
	eventually 60 grep -q '^host1' "$TEST_DIR/watch"
}

