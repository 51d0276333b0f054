#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What deploy/ has for Kubernetes: rendered, checked without a cluster, and its
# programs started with the words that their containers have.
. "$(dirname "$0")/../lib.sh"
need openssl python3
[ -e /usr/lib/python3/dist-packages/kubernetes ] || skip_all "needs python3-kubernetes"
cd "$TOP" || exit 1
"$TOP/tests/manifests/fetch" kubectl 2>"$TEST_DIR/why" || skip_all "$(tail -n 1 "$TEST_DIR/why")"

out=$TEST_DIR/out
validate=$TOP/tests/manifests/validate
helm=$BUILD/manifests/bin/helm

# Rendered once, for all tests.
rendered() { [ -s "$out/base.yaml" ] || "$TOP/tests/manifests/render" "$out" || [ $? = 77 ]; }

need_helm() { rendered >/dev/null; [ -s "$out/helm.yaml" ] || skip "no helm here"; }

# chart ARGUMENT...: what helm makes of it
chart() {
	"$helm" template tributary deploy/helm/tributary --namespace tributary \
		--kube-version 1.32.0 "$@" 2>&1 | grep -v '^walk.go'
	return "${PIPESTATUS[0]}"
}

# NAME:VERSION of each sidecar that we are to run.
listed() { awk '/^[^#]/ {print $1 ":" $2}' deploy/sidecars | sort; }
version_of() { awk -v name="$1" '$1 == name {print $2}' deploy/sidecars; }

test_all_manifests_are_valid() {
	rendered
}

test_chart_and_kustomization_have_the_same_objects() {
	need_helm
	"$validate" --same "$out/base.yaml" "$out/helm.yaml" Namespace Job
	"$helm" lint --strict deploy/helm/tributary >"$TEST_DIR/lint" 2>&1 || {
		cat "$TEST_DIR/lint"
		fail "helm lint"
	}
}

test_chart_stays_valid_with_other_values() {
	need_helm
	chart --include-crds --set storage.directory=/var/lib/tributary/pools/fast,logLevel=debug \
		--set 'storage.devices={/dev/disk/by-id/nvme-*,/dev/sdb}' \
		--set kubeletDir=/srv/kubelet,controller.replicas=1,image.tag=1.2.3 \
		--set imagePullSecrets[0].name=mine,controller.networkPolicy=false \
		--set controller.volumeAttributesClass=false \
		--set controller.snapshots=true,controller.groupSnapshots=true,node.ephemeralLimit=5Gi,node.podAnnotations.a=b,tls.serverName=storage.example \
		--set 'storage.config=floor = 1GiB' >"$TEST_DIR/values.yaml"
	"$validate" --with "$out/secrets.yaml" "$TEST_DIR/values.yaml"
	for word in 'image: tributary:1.2.3' 'pool = default=/var/lib/tributary/pools/fast' '- /var/lib/tributary/pools/fast' \
		'devices = /dev/disk/by-id/nvme-*' 'devices = /dev/sdb' \
		'floor = 1GiB' 'path: /srv/kubelet/plugins_registry' '--log-level=debug' \
		'--tls-name=storage.example' 'replicas: 1' 'name: mine' \
		'--ephemeral-limit=5Gi' 'name: tributary-node-ephemeral' \
		"sig-storage/csi-snapshotter:$(version_of csi-snapshotter)" 'name: tributary-controller-snapshots' \
		'CSIVolumeGroupSnapshot=true' 'name: tributary-controller-group-snapshots' \
		'VolumeAttributesClass=false'; do
		grep -qF -e "$word" "$TEST_DIR/values.yaml" || fail "lost: $word"
	done
	# Disks alone.
	chart --set storage.directory= --set storage.devices[0]=/dev/sdb >"$TEST_DIR/disks.yaml"
	grep -q 'devices = /dev/sdb' "$TEST_DIR/disks.yaml"
	! grep -q -e 'pool = ' -e 'name: directory' "$TEST_DIR/disks.yaml" || fail "a directory is left"
	! grep -q -e /var/lib/kubelet -e NetworkPolicy "$TEST_DIR/values.yaml" || fail "kept what was changed"
}

# Nobody may make volumes but the controller, and nothing needs the CRDs of
# others, unless it is asked for.
test_inline_volumes_and_snapshots_are_asked_for() {
	rendered >/dev/null
	! grep -q -e ephemeral-limit -e tributary-node-ephemeral -e snapshot.storage "$out/base.yaml" || false
	grep -q 'image: registry.k8s.io/sig-storage/csi-snapshotter' "$out/snapshots.yaml"
	grep -q 'volumesnapshotcontents/status' "$out/snapshots.yaml"
	! grep -qi 'groupsnapshot.storage\|GroupSnapshot=true' "$out/snapshots.yaml" || false
	grep -q -e '--feature-gates=CSIVolumeGroupSnapshot=false' "$out/snapshots.yaml"
	same "$(grep -c VolumeAttributesClass=false "$out/base.yaml")" 0
	same "$(grep -c volumeattributesclasses "$out/base.yaml")" 1
	same "$(grep -c VolumeAttributesClass=false "$out/no-volume-attributes-class.yaml")" 2
	grep -q -e '--feature-gates=CSIVolumeGroupSnapshot=true' "$out/group-snapshots.yaml"
	grep -q 'volumegroupsnapshotcontents/status' "$out/group-snapshots.yaml"
	grep -q -e '--ephemeral-limit=10Gi' "$out/ephemeral.yaml"
	[ -x "$helm" ] || return 0
	[ ! -s "$out/helm.yaml" ] || ! grep -q tributary-node-ephemeral "$out/helm.yaml"
}

# Before an uninstall, which tests/system/kube_store.sh runs.
test_chart_asks_before_an_uninstall() {
	need_helm
	grep -A 12 '^kind: Job' "$out/helm.yaml" | grep -q 'helm.sh/hook: pre-delete'
	same "$(grep -c '^kind: Job' "$out/base.yaml")" 0
}

test_chart_refuses_wrong_values() {
	need_helm
	local value
	for value in image.tag=latest storage.directory=/srv/x storage.devices[0]=sda nonsense=1 controller.replicas=0 \
		logLevel=loud node.ephemeralLimit=much sidecars.attacher.tag= storageClasses[0].name=No kubeletDir=/a/; do
		fails 1 "values don't meet the specifications" chart --set "$value"
	done
}

test_chart_is_whole_when_packaged() {
	need_helm
	"$helm" package deploy/helm/tributary -d "$TEST_DIR" >/dev/null 2>&1
	"$helm" template tributary "$TEST_DIR"/tributary-*.tgz --namespace tributary \
		--include-crds --kube-version 1.32.0 >"$TEST_DIR/package.yaml"
	"$validate" --same "$out/helm.yaml" "$TEST_DIR/package.yaml"
}

test_what_is_wrong_is_found() {
	rendered >/dev/null
	"$TOP/tests/manifests/broken" "$out/base.yaml" "$out/secrets.yaml"
	printf '%s\n' 'kind: ConfigMap' 'kind: Secret' >"$TEST_DIR/twice.yaml"
	fails 1 "is there twice" "$validate" "$TEST_DIR/twice.yaml"
	: >"$TEST_DIR/empty.yaml"
	fails 1 "has no objects" "$validate" "$TEST_DIR/empty.yaml"
	sed 's/replicas: 2/replicas: 3/' "$out/base.yaml" >"$TEST_DIR/other.yaml"
	fails 1 "spec.replicas: 2, 3" "$validate" --same "$out/base.yaml" "$TEST_DIR/other.yaml"
}

# each CALLBACK: for each container of ours, its words as arguments
each() {
	local line words
	"$validate" --programs "$out/base.yaml" "$out/secrets.yaml" "$TEST_DIR/root" >"$TEST_DIR/words"
	[ "$(wc -l <"$TEST_DIR/words")" -ge 5 ] || fail "not all programs are there"
	while read -r line; do
		mapfile -d '' -t words < <(python3 -c 'import json, sys
print(*json.loads(sys.argv[1]), sep="\0", end="\0")' "$line")
		"$1" "${words[@]}"
	done <"$TEST_DIR/words"
}

# Every flag is one the program has: --version comes after all of them.
knows() {
	"$@" --version >"$TEST_DIR/said" 2>&1 || fail "$*: $(cat "$TEST_DIR/said")"
	fails 2 "" "$@" --no-such-flag --version
}

# Every value is one it takes: without a cluster it gets as far as that.
takes() {
	local rc=0
	case $1 in
	blockd) "$@" --check-config >"$TEST_DIR/said" 2>&1 || fail "$*: $(cat "$TEST_DIR/said")" ;;
	trib | trib-csi)
		if [ "$2" = doctor ]; then # it looks at the machine alone
			"$@" >"$TEST_DIR/said" 2>&1 || rc=$?
			grep -q '^ok *kernel' "$TEST_DIR/said" || fail "$*: $(cat "$TEST_DIR/said")"
			[ $rc -le 1 ]
			return
		fi
		env -u KUBECONFIG -u KUBERNETES_SERVICE_HOST HOME=/nowhere timeout 60 \
			"$@" >"$TEST_DIR/said" 2>&1 || rc=$?
		if [ $rc = 0 ] || [ $rc = 2 ] || ! grep -qi 'kube' "$TEST_DIR/said"; then
			fail "$*: exit $rc: $(cat "$TEST_DIR/said")"
		fi
		;;
	esac
}

test_programs_know_the_flags_of_their_containers() {
	rendered >/dev/null
	each knows
}

test_programs_take_the_values_of_their_containers() {
	rendered >/dev/null
	each takes
}

images() { sed -n 's/^ *-* *image: //p' "$1" | sort -u; }

test_every_image_is_listed_and_can_be_mirrored() {
	rendered >/dev/null
	local image
	same "$(images "$out/base.yaml" | wc -l)" 7
	for image in $(images "$out/base.yaml"); do
		grep -qF "    $image" docs/kubernetes.md || fail "docs/kubernetes.md lacks $image"
	done
	same "$(images "$out/mirror.yaml" | grep -cv '^mirror.example/' || true)" 0
}

# Manifests, chart and document run the versions of one list, and no other sidecar.
test_sidecars_have_the_versions_of_the_list() {
	rendered >/dev/null
	local kind
	cat "$out/base.yaml" "$out/snapshots.yaml" >"$TEST_DIR/manifests"
	cp docs/kubernetes.md "$TEST_DIR/docs"
	for kind in manifests docs; do
		grep -o 'sig-storage/[a-z-]*:v[0-9.]*' "$TEST_DIR/$kind" | sed 's|.*/||' | sort -u >"$TEST_DIR/$kind.has"
		diff <(listed) "$TEST_DIR/$kind.has" || fail "$kind: not the versions of deploy/sidecars"
	done
	sed -n '/repository:.*sig-storage/ {N; s|.*sig-storage/\([a-z-]*\)\n *tag: \(v[0-9.]*\)$|\1:\2|p}' \
		deploy/helm/tributary/values.yaml | sort -u >"$TEST_DIR/chart.has"
	diff <(listed) "$TEST_DIR/chart.has" || fail "chart: not the versions of deploy/sidecars"
}

test_a_sidecar_that_is_old_is_told() {
	local name version repository
	command -v git >/dev/null || skip "needs git"
	while read -r name version repository; do
		case $name in '#'*) continue ;; esac
		git init -q "$TEST_DIR/hub/$repository"
		git -C "$TEST_DIR/hub/$repository" -c user.name=t -c user.email=t@t.example \
			commit -q --allow-empty -m x
		git -C "$TEST_DIR/hub/$repository" tag "$version"
	done <deploy/sidecars
	export SIDECAR_URL=$TEST_DIR/hub
	make -s sidecars >"$TEST_DIR/said"
	! grep -q old "$TEST_DIR/said" || fail "$(cat "$TEST_DIR/said")"
	same "$(grep -c . "$TEST_DIR/said")" "$(listed | wc -l)"
	# A preview and an older one are no news, v100.9.0 is older than v100.10.0.
	for version in v0.0.1 v200.0.0-rc1 v100.9.0 v100.10.0; do
		git -C "$TEST_DIR/hub/kubernetes-csi/livenessprobe" tag $version
	done
	! deploy/sidecar-versions >"$TEST_DIR/said" || fail "nothing is old"
	grep -qE '^livenessprobe +v[0-9.]+ +v100.10.0 +old$' "$TEST_DIR/said"
	same "$(grep -c old "$TEST_DIR/said")" 1
	rm -rf "$TEST_DIR/hub/kubernetes-csi/livenessprobe"
	fails 2 "cannot be read" deploy/sidecar-versions
}

test_storage_classes_have_parameters_that_there_are() {
	rendered >/dev/null
	local key value
	trib-csi --parameters | sed -n 's/^| `\([a-zA-Z]*\)` | \([^|]*\) |.*/\1 \2/p' >"$TEST_DIR/table"
	[ "$(wc -l <"$TEST_DIR/table")" -ge 5 ] || fail "no table"
	/usr/bin/python3 -c 'import sys, yaml
for t in yaml.safe_load_all(open(sys.argv[1])):
    for k, v in t.get("parameters", {}).items():
        print(k, v)' "$out/base.yaml" >"$TEST_DIR/used"
	same "$(wc -l <"$TEST_DIR/used")" 5
	while read -r key value; do
		[ "$key" != csi.storage.k8s.io/fstype ] || key=fsType
		grep -q "^$key .*\`$value\`" "$TEST_DIR/table" || fail "$key: $value"
	done <"$TEST_DIR/used"
}

# A port that was free just now.
port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

test_the_certificates_are_what_blockd_and_its_clients_need() {
	rendered >/dev/null
	local control data dir=$TEST_DIR/live tls
	each true
	control=$(port) data=$(port)
	mkdir -p "$dir/pool" "$dir/run"
	tls=$TEST_DIR/root/tributary-storage
	# Its configuration as it is deployed, but for where it keeps things.
	sed "s|^pool = .*|pool = default=$dir/pool|" \
		"$tls/blockd/etc/tributary/blockd.conf" >"$dir/blockd.conf"
	blockd --config "$dir/blockd.conf" --node-name node-a --listen "tcp:[127.0.0.1]:$data" \
		--control "tcp:[127.0.0.1]:$control" --state-dir "$dir/state" --run-dir "$dir/run" \
		>"$dir/blockd.log" 2>&1 &
	at_exit kill $!
	eventually 30 grep -q . "$dir/blockd.log"
	local trib=(trib --store "local:$dir/records.db" --run-dir "$dir/run")
	tls=$TEST_DIR/root/tributary-node/trib-csi/etc/tributary/tls
	add() {
		"${trib[@]}" node add node-a --control "tcp:[127.0.0.1]:$control" \
			--data "[127.0.0.1]:$data" --tls-ca "$tls/ca.crt" --tls-cert "$tls/tls.crt" \
			--tls-key "$tls/tls.key" --quiet "$@"
	}
	state() { add "$@" 2>>"$dir/trib.log" && "${trib[@]}" node list 2>>"$dir/trib.log" | grep -qE "^node-a +$wanted"; }
	local wanted=ready
	eventually 30 state --tls-name blockd.tributary
	wanted='no answer'
	# A client's certificate is no server's, and another authority's is none.
	state --tls-name client.tributary
	deploy/make-tls "$dir/other" >"$dir/other.yaml"
	"$validate" "$dir/other.yaml"
	base64 -d < <(awk '/ca.crt:/ {print $2; exit}' "$dir/other.yaml") >"$dir/other.crt"
	state --tls-name blockd.tributary --tls-ca "$dir/other.crt"
}

test_certificates_are_renewed_by_the_same_authority() {
	local dir=$TEST_DIR/tls
	deploy/make-tls "$dir" >"$TEST_DIR/one.yaml"
	deploy/make-tls --namespace other --days 3 "$dir" >"$TEST_DIR/two.yaml"
	same "$(stat -c %a "$dir/ca.key")" 600
	same "$(grep -h ca.crt "$TEST_DIR"/{one,two}.yaml | sort -u | wc -l)" 1
	same "$(grep -h tls.key "$TEST_DIR"/{one,two}.yaml | sort -u | wc -l)" 4
	same "$(grep -c 'namespace: other' "$TEST_DIR/two.yaml")" 2
	fails 2 "is no namespace" deploy/make-tls --namespace 'a b' "$dir"
	fails 2 "is no number" deploy/make-tls --days 0 "$dir"
	fails 2 "is no option" deploy/make-tls --nonsense "$dir"
}

test_the_sample_finds_what_is_not_what_it_wrote() {
	rendered >/dev/null
	local script dir=$TEST_DIR/data
	script=$(/usr/bin/python3 -c 'import sys, yaml
print([t for t in yaml.safe_load_all(open(sys.argv[1])) if t["kind"] == "StatefulSet"][0]
      ["spec"]["template"]["spec"]["containers"][0]["args"][0])' "$out/samples.yaml")
	mkdir "$dir"
	verify() { DATA=$dir FILES=3 FILE_BYTES=5000 ROUNDS=$1 PAUSE=0 sh -euc "$script"; }
	verify 5
	verify 0 | grep -qx '3 files are as they were written'
	same "$(ls "$dir" | grep -c '^file-')" 3
	# Cut off after a new file, before the list knows of it.
	echo half >"$dir/file-1000006"
	verify 1
	echo more >>"$dir/file-1000006"
	fails any "file-1000006: FAILED" verify 0
}

run_tests "$@"
