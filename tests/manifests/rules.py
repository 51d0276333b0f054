# SPDX-License-Identifier: Apache-2.0
"""What a set of objects must be beside valid: everything that is named is
there, and no pod has more rights than its comment gives a reason for.
"""
import re

# Priority classes and roles that a cluster has by itself.
BUILT_IN_PRIORITIES = {"system-cluster-critical", "system-node-critical"}
BUILT_IN_ROLES = re.compile(r"^system:")

# (workload, container) that may be privileged, and those without a probe.
PRIVILEGED = {
    ("tributary-node", "trib-csi"),
    ("tributary-node", "host-checks"),  # looks for the devices of trib-csi
    ("tributary-launcher", "trib-launch"),
    ("tributary-launcher", "trib-launch-peer"),
    ("tributary-storage", "blockd"),
}
UNPROBED = {
    ("tributary-uninstall", "volumes"),  # ends by itself
    ("tributary-launcher", "trib-launch"),  # killing it breaks mounts
    ("tributary-launcher", "trib-launch-peer"),
    ("tributary-storage", "register"),  # its heartbeat is watched
    ("tributary-controller", "livenessprobe"),  # is the probe
    ("tributary-node", "livenessprobe"),
}
# (workload, container): capabilities beside none.
CAPABILITIES = {("tributary-node", "modules"): ["SYS_MODULE"]}


class Set:
    """Objects by kind, namespace and name."""

    def __init__(self, things):
        self.things = things
        self.by_key = {self.key(t): t for t in things}

    @staticmethod
    def key(thing):
        metadata = thing.get("metadata", {})
        return thing.get("kind"), metadata.get("namespace"), metadata.get("name")

    def find(self, kind, namespace, name):
        return self.by_key.get((kind, namespace, name))

    def of(self, *kinds):
        return [t for t in self.things if t["kind"] in kinds]


def where(thing):
    return f"{thing['kind']} {thing['metadata']['name']}"


def containers(pod):
    return pod.get("initContainers", []) + pod["containers"]


def workloads(objects):
    for thing in objects.of("Deployment", "DaemonSet", "StatefulSet", "Job"):
        yield thing, thing["spec"]["template"], thing["spec"]["template"]["spec"]


def _matches(selector, labels):
    return bool(selector) and all(labels.get(k) == v for k, v in selector.items())


def check_names(objects, problems):
    if len(objects.by_key) != len(objects.things):
        seen = [Set.key(t) for t in objects.things]
        for key in {k for k in seen if seen.count(k) > 1}:
            problems.append(f"{key[0]} {key[2]}: there twice")


def check_selectors(objects, problems):
    labels = {}
    for thing, template, _ in workloads(objects):
        own = template["metadata"].get("labels", {})
        labels[Set.key(thing)] = (thing["metadata"]["namespace"], own)
        if thing["kind"] != "Job" and \
           not _matches(thing["spec"]["selector"].get("matchLabels"), own):
            problems.append(f"{where(thing)}: its selector does not match its own pods")
    for thing in objects.of("PodDisruptionBudget", "NetworkPolicy"):
        spec = thing["spec"]
        selector = (spec.get("selector") or spec.get("podSelector")).get("matchLabels")
        if not any(ns == thing["metadata"]["namespace"] and _matches(selector, own)
                   for ns, own in labels.values()):
            problems.append(f"{where(thing)}: selects no pod that is there")


def _check_volume(objects, thing, volume, pod, problems):
    namespace = thing["metadata"]["namespace"]
    at = f"{where(thing)}: volume {volume['name']}"
    source = volume.get("configMap") or volume.get("secret")
    if source:
        kind = "ConfigMap" if "configMap" in volume else "Secret"
        name = source.get("name") or source.get("secretName")
        found = objects.find(kind, namespace, name)
        if not found:
            problems.append(f"{at}: there is no {kind} {name}")
            return
        keys = set(found.get("data", {}))
        wanted = {i["key"] for i in source.get("items", [])}
        for container in containers(pod):
            wanted |= {m["subPath"] for m in container.get("volumeMounts", [])
                       if m["name"] == volume["name"] and "subPath" in m}
        for key in wanted - keys:
            problems.append(f"{at}: the {kind} {name} has no {key}")
        if kind == "Secret" and source.get("defaultMode") != 0o400:
            problems.append(f"{at}: a secret that more than its owner may read")
    elif "hostPath" in volume and "type" not in volume["hostPath"]:
        problems.append(f"{at}: a host path of no type")


def check_volumes(objects, problems):
    for thing, _, pod in workloads(objects):
        names = [v["name"] for v in pod.get("volumes", [])]
        for volume in pod.get("volumes", []):
            _check_volume(objects, thing, volume, pod, problems)
        names += [c["metadata"]["name"] for c in thing["spec"].get("volumeClaimTemplates", [])]
        used = {m["name"] for c in containers(pod) for m in c.get("volumeMounts", [])}
        for name in used - set(names):
            problems.append(f"{where(thing)}: mounts {name}, which is no volume")
        for name in set(names) - used:
            problems.append(f"{where(thing)}: nobody mounts the volume {name}")
        for container in containers(pod):
            paths = [m["mountPath"] for m in container.get("volumeMounts", [])]
            if len(paths) != len(set(paths)):
                problems.append(f"{where(thing)} {container['name']}: two mounts at one path")


def check_claims(objects, problems):
    claims = objects.of("PersistentVolumeClaim")
    for thing in objects.of("StatefulSet"):
        claims += [dict(c, kind="claim") for c in thing["spec"]["volumeClaimTemplates"]]
    for claim in claims:
        name = claim["spec"].get("storageClassName")
        if not objects.find("StorageClass", None, name):
            problems.append(f"{where(claim)}: there is no StorageClass {name}")
    drivers = {d["metadata"]["name"] for d in objects.of("CSIDriver")}
    for thing in objects.of("StorageClass"):
        if thing["provisioner"] not in drivers:
            problems.append(f"{where(thing)}: no driver {thing['provisioner']}")


def check_accounts(objects, problems):
    for thing, _, pod in workloads(objects):
        name = pod.get("serviceAccountName")
        if name and not objects.find("ServiceAccount", thing["metadata"]["namespace"], name):
            problems.append(f"{where(thing)}: there is no ServiceAccount {name}")
        if "automountServiceAccountToken" not in pod:
            problems.append(f"{where(thing)}: does not say whether it needs a token")
        priority = pod.get("priorityClassName")
        if priority and priority not in BUILT_IN_PRIORITIES:
            problems.append(f"{where(thing)}: there is no priority class {priority}")


def check_roles(objects, problems):
    for thing in objects.of("RoleBinding", "ClusterRoleBinding"):
        namespace = thing["metadata"].get("namespace")
        ref = thing["roleRef"]
        if not BUILT_IN_ROLES.match(ref["name"]) and not objects.find(
                ref["kind"], namespace if ref["kind"] == "Role" else None, ref["name"]):
            problems.append(f"{where(thing)}: there is no {ref['kind']} {ref['name']}")
        for subject in thing["subjects"]:
            if not objects.find(subject["kind"], subject.get("namespace"), subject["name"]):
                problems.append(f"{where(thing)}: there is no {subject['kind']} {subject['name']}")
    for thing in objects.of("Role", "ClusterRole"):
        for rule in thing["rules"]:
            words = rule["apiGroups"] + rule["resources"] + rule["verbs"]
            if "*" in words or "nonResourceURLs" in rule:
                problems.append(f"{where(thing)}: a rule without bounds")
            if "secrets" in rule["resources"]:
                problems.append(f"{where(thing)}: may see secrets")
    custom = {c["spec"]["names"]["plural"] for c in objects.of("CustomResourceDefinition")}
    for thing in objects.of("Role", "ClusterRole"):
        for rule in thing["rules"]:
            if rule["apiGroups"] == ["union.io"]:
                for resource in rule["resources"]:
                    if resource.split("/")[0] not in custom:
                        problems.append(f"{where(thing)}: there is no resource {resource}")


def _check_rights(thing, pod, container, problems):
    at = f"{where(thing)} {container['name']}"
    key = (thing["metadata"]["name"], container["name"])
    context = container.get("securityContext", {})
    if context.get("readOnlyRootFilesystem") is not True:
        problems.append(f"{at}: may write its root file system")
    if context.get("privileged"):
        if key not in PRIVILEGED:
            problems.append(f"{at}: is privileged")
        return
    if context.get("allowPrivilegeEscalation") is not False:
        problems.append(f"{at}: may gain privileges")
    capabilities = context.get("capabilities", {})
    if capabilities.get("drop") != ["ALL"] or capabilities.get("add", []) != CAPABILITIES.get(key, []):
        problems.append(f"{at}: keeps capabilities")
    for mount in container.get("volumeMounts", []):
        if mount.get("mountPropagation") == "Bidirectional":
            problems.append(f"{at}: Bidirectional needs privileged")


def check_rights(objects, problems):
    for thing, _, pod in workloads(objects):
        context = pod.get("securityContext", {})
        if context.get("seccompProfile", {}).get("type") != "RuntimeDefault":
            problems.append(f"{where(thing)}: no seccomp profile")
        host = pod.get("hostNetwork") or pod.get("hostPID") or any(
            "hostPath" in v for v in pod.get("volumes", []))
        if not host and context.get("runAsNonRoot") is not True:
            problems.append(f"{where(thing)}: may run as root")
        if pod.get("hostNetwork") and thing["metadata"]["name"] != "tributary-launcher" \
                and pod.get("dnsPolicy") != "ClusterFirstWithHostNet":
            problems.append(f"{where(thing)}: finds no service's name")
        for container in containers(pod):
            _check_rights(thing, pod, container, problems)


def check_images(objects, problems):
    for thing, _, pod in workloads(objects):
        for container in containers(pod):
            at = f"{where(thing)} {container['name']}"
            name, _, tag = container["image"].rpartition(":")
            if not name or "/" in tag or tag == "latest":
                problems.append(f"{at}: image {container['image']} has no tag of its own")
            if "imagePullPolicy" not in container:
                problems.append(f"{at}: no imagePullPolicy")
            if not container.get("resources", {}).get("requests"):
                problems.append(f"{at}: requests no resources")


def _check_probe(thing, pod, container, kind, problems):
    probe = container[kind]
    at = f"{where(thing)} {container['name']} {kind}"
    if "exec" in probe:
        return
    port = (probe.get("httpGet") or probe.get("tcpSocket"))["port"]
    named = {p.get("name"): p["containerPort"] for p in container.get("ports", [])}
    if isinstance(port, str):
        if port not in named:
            problems.append(f"{at}: the container has no port {port}")
            return
        port = named[port]
    listens = [a for c in pod["containers"] for a in c.get("args", [])]
    if not any(re.search(rf":{port}$", a) for a in listens):
        problems.append(f"{at}: no container is told to listen at {port}")


def check_probes(objects, problems):
    taken = {}
    for thing, _, pod in workloads(objects):
        for container in pod["containers"]:
            kinds = [k for k in ("livenessProbe", "readinessProbe", "startupProbe") if k in container]
            if not kinds and (thing["metadata"]["name"], container["name"]) not in UNPROBED:
                problems.append(f"{where(thing)} {container['name']}: no probe")
            for kind in kinds:
                _check_probe(thing, pod, container, kind, problems)
            scope = "the host" if pod.get("hostNetwork") else where(thing)
            for port in container.get("ports", []):
                if len(port.get("name", "")) > 15:
                    problems.append(f"{where(thing)}: port name {port['name']} is too long")
                other = taken.setdefault((scope, port["containerPort"]), container)
                if other is not container:
                    problems.append(f"{where(thing)}: port {port['containerPort']} is taken")


def check_variables(objects, problems):
    for thing, _, pod in workloads(objects):
        for container in containers(pod):
            known = {e["name"] for e in container.get("env", [])}
            if container.get("command", [""])[0] == "sh":
                continue  # $(...) is the shell's
            for arg in container.get("command", []) + container.get("args", []):
                for name in re.findall(r"\$\(([^)]*)\)", arg):
                    if name not in known:
                        problems.append(f"{where(thing)} {container['name']}: no variable {name}")


CHECKS = [check_names, check_selectors, check_volumes, check_claims, check_accounts,
          check_roles, check_rights, check_images, check_probes, check_variables]
