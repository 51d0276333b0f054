# SPDX-License-Identifier: Apache-2.0
"""Objects against the Kubernetes API, as Debian's python3-kubernetes knows it.

Every field has to be one the API has, of its type; what it requires has to be
there; words that it takes from a list have to be on it.
"""
import re

from kubernetes.client import models

# What the API has got since the version that the package knows.
LATER = {
    ("V1CSIDriverSpec", "seLinuxMount"): "bool",  # 1.25
}

# Words from a list: (model, field) -> values.
WORDS = {
    ("V1CSIDriverSpec", "fsGroupPolicy"): ["None", "File", "ReadWriteOnceWithFSType"],
    ("V1CSIDriverSpec", "volumeLifecycleModes"): ["Persistent", "Ephemeral"],
    ("V1Container", "imagePullPolicy"): ["Always", "IfNotPresent", "Never"],
    ("V1ContainerPort", "protocol"): ["TCP", "UDP", "SCTP"],
    ("V1NetworkPolicyPort", "protocol"): ["TCP", "UDP", "SCTP"],
    ("V1NetworkPolicySpec", "policyTypes"): ["Ingress", "Egress"],
    ("V1DaemonSetUpdateStrategy", "type"): ["RollingUpdate", "OnDelete"],
    ("V1DeploymentStrategy", "type"): ["RollingUpdate", "Recreate"],
    ("V1StatefulSetSpec", "podManagementPolicy"): ["OrderedReady", "Parallel"],
    ("V1EmptyDirVolumeSource", "medium"): ["", "Memory"],
    ("V1HostPathVolumeSource", "type"): [
        "DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket",
        "CharDevice", "BlockDevice"],
    ("V1PersistentVolumeClaimSpec", "accessModes"): [
        "ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"],
    ("V1PersistentVolumeClaimSpec", "volumeMode"): ["Filesystem", "Block"],
    ("V1PodSpec", "dnsPolicy"): ["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"],
    ("V1PodSpec", "restartPolicy"): ["Always", "OnFailure", "Never"],
    ("V1SeccompProfile", "type"): ["RuntimeDefault", "Unconfined", "Localhost"],
    ("V1StorageClass", "reclaimPolicy"): ["Delete", "Retain"],
    ("V1StorageClass", "volumeBindingMode"): ["Immediate", "WaitForFirstConsumer"],
    ("V1Toleration", "effect"): ["NoSchedule", "PreferNoSchedule", "NoExecute"],
    ("V1Toleration", "operator"): ["Exists", "Equal"],
    ("V1VolumeMount", "mountPropagation"): ["None", "HostToContainer", "Bidirectional"],
    ("V1Subject", "kind"): ["ServiceAccount", "User", "Group"],
    ("V1RoleRef", "kind"): ["Role", "ClusterRole"],
    ("V1PolicyRule", "verbs"): [
        "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"],
}

# apiVersion of each kind that may be here, and whether it has a namespace.
KINDS = {
    "Namespace": ("v1", False),
    "ServiceAccount": ("v1", True),
    "ConfigMap": ("v1", True),
    "Secret": ("v1", True),
    "PersistentVolumeClaim": ("v1", True),
    "Deployment": ("apps/v1", True),
    "DaemonSet": ("apps/v1", True),
    "StatefulSet": ("apps/v1", True),
    "Job": ("batch/v1", True),
    "Role": ("rbac.authorization.k8s.io/v1", True),
    "RoleBinding": ("rbac.authorization.k8s.io/v1", True),
    "ClusterRole": ("rbac.authorization.k8s.io/v1", False),
    "ClusterRoleBinding": ("rbac.authorization.k8s.io/v1", False),
    "CSIDriver": ("storage.k8s.io/v1", False),
    "StorageClass": ("storage.k8s.io/v1", False),
    "NetworkPolicy": ("networking.k8s.io/v1", True),
    "PodDisruptionBudget": ("policy/v1", True),
    "CustomResourceDefinition": ("apiextensions.k8s.io/v1", False),
}

LABEL = re.compile(r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$")
NAME = re.compile(r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$")
QUANTITY = re.compile(r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$")


def _scalar(kind, value, where, problems):
    if kind == "str":
        ok = isinstance(value, str)
    elif kind == "bool":
        ok = isinstance(value, bool)
    elif kind == "int":
        ok = isinstance(value, int) and not isinstance(value, bool)
    elif kind == "float":
        ok = isinstance(value, (int, float)) and not isinstance(value, bool)
    else:  # "object": anything; "datetime", "file" do not come from a person
        ok = kind == "object"
    if not ok:
        problems.append(f"{where}: {value!r} is no {kind}")


def _value(kind, value, where, problems):
    if value is None:
        problems.append(f"{where}: is null")
    elif kind.startswith("list["):
        if not isinstance(value, list):
            problems.append(f"{where}: is no list")
            return
        for i, item in enumerate(value):
            _value(kind[5:-1], item, f"{where}[{i}]", problems)
    elif kind.startswith("dict("):
        if not isinstance(value, dict):
            problems.append(f"{where}: is no map")
            return
        for key, item in value.items():
            if not isinstance(key, str):
                problems.append(f"{where}: key {key!r} is no text")
            _value(kind.split(", ", 1)[1][:-1], item, f"{where}.{key}", problems)
    elif hasattr(models, kind):
        _object(kind, value, where, problems)
    else:
        _scalar(kind, value, where, problems)


def _object(name, value, where, problems):
    model = getattr(models, name)
    if not isinstance(value, dict):
        problems.append(f"{where}: is no map")
        return
    known = {json: model.openapi_types[python] for python, json in model.attribute_map.items()}
    for key, item in value.items():
        kind = known.get(key) or LATER.get((name, key))
        if kind is None:
            problems.append(f"{where}.{key}: the API has no such field in a {name}")
            continue
        _value(kind, item, f"{where}.{key}", problems)
        words = WORDS.get((name, key))
        for word in item if isinstance(item, list) else [item]:
            if words and word not in words:
                problems.append(f"{where}.{key}: {word!r} is none of {', '.join(words)}")
    # The model itself knows what is required.
    given = {python: value.get(json) for python, json in model.attribute_map.items()}
    try:
        model(**given)
    except ValueError as error:
        problems.append(f"{where}: {error}")


def _metadata(thing, where, problems):
    metadata = thing.get("metadata") or {}
    for key, item in (metadata.get("labels") or {}).items():
        if not LABEL.match(key) or (item and not LABEL.match(str(item))):
            problems.append(f"{where}: label {key}={item} is none")
    if not NAME.match(str(metadata.get("name", ""))):
        problems.append(f"{where}: metadata.name {metadata.get('name')!r} is none")


def _quantities(value, where, problems):
    if not isinstance(value, dict):
        return
    for key, item in value.items():
        if key in ("requests", "limits") and isinstance(item, dict):
            for resource, amount in item.items():
                if not QUANTITY.match(str(amount)):
                    problems.append(f"{where}.{key}.{resource}: {amount!r} is no quantity")
        if key == "openAPIV3Schema":  # a member may be called the same
            continue
        for i, part in enumerate(item if isinstance(item, list) else [item]):
            _quantities(part, f"{where}.{key}", problems)


def check(thing, where, problems):
    """One object; what is wrong is added to problems."""
    kind = thing.get("kind")
    if kind not in KINDS:
        problems.append(f"{where}: the kind {kind!r} is not expected here")
        return
    version, namespaced = KINDS[kind]
    if thing.get("apiVersion") != version:
        problems.append(f"{where}: apiVersion is {thing.get('apiVersion')!r}, not {version}")
        return
    _metadata(thing, where, problems)
    if namespaced != bool(thing.get("metadata", {}).get("namespace")):
        problems.append(f"{where}: has {'no' if namespaced else 'a'} namespace")
    _object("V1" + kind, thing, where, problems)
    _quantities(thing, where, problems)
