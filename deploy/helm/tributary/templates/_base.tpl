{{/*
SPDX-License-Identifier: Apache-2.0
The chart has no objects of its own: it takes those of deploy/kustomize/base
and changes what the values say.

tributary.text: a file of the base for this release's namespace.
  (dict "root" $ "file" "node.yaml")
*/}}
{{- define "tributary.text" -}}
{{- $text := .root.Files.Get (printf "base/%s" .file) -}}
{{- if not $text -}}
{{- fail (printf "the chart lacks base/%s: package it from a checkout" .file) -}}
{{- end -}}
{{- $text
  | replace "namespace: tributary\n" (printf "namespace: %s\n" .root.Release.Namespace)
  | replace "/var/lib/kubelet" .root.Values.kubeletDir -}}
{{- end -}}

{{/* tributary.image: of one container. (dict "root" $ "container" NAME) */}}
{{- define "tributary.image" -}}
{{- $sidecars := dict
  "csi-provisioner" "provisioner"
  "csi-attacher" "attacher"
  "csi-resizer" "resizer"
  "csi-health-monitor" "healthMonitor"
  "registrar" "registrar"
  "livenessprobe" "livenessprobe"
  "csi-snapshotter" "snapshotter" -}}
{{- if hasKey $sidecars .container -}}
{{- $s := index .root.Values.sidecars (index $sidecars .container) -}}
{{- printf "%s:%s" $s.repository $s.tag -}}
{{- else -}}
{{- $i := .root.Values.image -}}
{{- printf "%s:%s" $i.repository ($i.tag | default .root.Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{/*
tributary.workload: a Deployment or DaemonSet of the base with its values.
  (dict "root" $ "file" "node.yaml" "values" $.Values.node)
*/}}
{{- define "tributary.workload" -}}
{{- $root := .root -}}
{{- $values := .values -}}
{{- $object := include "tributary.text" (dict "root" $root "file" .file) | fromYaml -}}
{{- $template := $object.spec.template -}}
{{- $pod := $template.spec -}}
{{- if hasKey $values "replicas" -}}
{{- $_ := set $object.spec "replicas" $values.replicas -}}
{{- end -}}
{{- with $values.podAnnotations -}}
{{- $_ := set $template.metadata "annotations" (merge (dict) . ($template.metadata.annotations | default dict)) -}}
{{- end -}}
{{- range list "nodeSelector" "tolerations" "affinity" -}}
{{- if index $values . -}}
{{- $_ := set $pod . (index $values .) -}}
{{- end -}}
{{- end -}}
{{- with $root.Values.imagePullSecrets -}}
{{- $_ := set $pod "imagePullSecrets" . -}}
{{- end -}}
{{- if $values.snapshots -}}
{{- $side := include "tributary.text" (dict "root" $root "file" "snapshots/sidecar.yaml") | fromYaml -}}
{{- if $values.groupSnapshots -}}
{{- $one := first $side.spec.template.spec.containers -}}
{{- $_ := set $one "args" (append $one.args "--feature-gates=CSIVolumeGroupSnapshot=true") -}}
{{- end -}}
{{- $_ := set $pod "containers" (concat $pod.containers $side.spec.template.spec.containers) -}}
{{- end -}}
{{- range concat ($pod.initContainers | default list) $pod.containers -}}
{{- $_ := set . "image" (include "tributary.image" (dict "root" $root "container" .name)) -}}
{{- if and (has .name (list "csi-provisioner" "csi-resizer")) (not $values.volumeAttributesClass) -}}
{{- $_ := set . "args" (append .args "--feature-gates=VolumeAttributesClass=false") -}}
{{- end -}}
{{- $_ := set . "imagePullPolicy" $root.Values.image.pullPolicy -}}
{{- if hasKey ($values.resources | default dict) .name -}}
{{- $_ := set . "resources" (index $values.resources .name) -}}
{{- end -}}
{{- if and (has .name (list "trib-csi" "blockd")) (ne $root.Values.logLevel "info") -}}
{{- $_ := set . "args" (append .args (printf "--log-level=%s" $root.Values.logLevel)) -}}
{{- end -}}
{{- end -}}
{{- with $values.ephemeralLimit -}}
{{- $csi := first $pod.containers -}}
{{- $_ := set $csi "args" (append $csi.args (printf "--ephemeral-limit=%s" .)) -}}
{{- end -}}
{{- range $pod.volumes -}}
{{- if eq .name "client-tls" -}}
{{- $_ := set .secret "secretName" $root.Values.tls.clientSecret -}}
{{- else if eq .name "blockd-tls" -}}
{{- $_ := set .secret "secretName" $root.Values.tls.blockdSecret -}}
{{- end -}}
{{- end -}}
{{- toYaml $object -}}
{{- end -}}
