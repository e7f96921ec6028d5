{{/* The pod template of a component. Takes {root, name, facts}. */}}
{{- define "tidegate.pod" -}}
{{- $values := .root.Values -}}
{{- $own := .facts.values -}}
{{- $pod := mergeOverwrite (deepCopy $values.pod) $own.pod -}}
{{- range list "extraVolumes" "extraVolumeMounts" -}}
{{- $_ := set $pod . (concat (get $values.pod .) (default list (get $own.pod .))) -}}
{{- end -}}
{{- $checksum := dict "checksum/topology" (toYaml $values.topology.overlay | sha256sum) -}}
metadata: {{- include "tidegate.podMetadata" (merge (dict "pod" $pod "annotations" $checksum) .) | nindent 2 }}
spec:
  {{- include "tidegate.podSecurity" .root | nindent 2 }}
  terminationGracePeriodSeconds: {{ int $own.stopSeconds }}
  {{- include "tidegate.spread" . | nindent 2 }}
  {{- include "tidegate.nodes" $pod | nindent 2 }}
  {{- if $own.wheel }}
  initContainers:
    - name: application
      command: [python, -m, pip, install, --no-index, --no-deps, --target=/opt/application]
      args:
        {{- range $own.wheel.files }}
        - /wheels/{{ . }}
        {{- end }}
      {{- include "tidegate.container" (dict "root" .root "image" $own.image "resources" $own.resources) | nindent 6 }}
      volumeMounts:
        - {name: wheels, mountPath: /wheels, readOnly: true}
        - {name: application, mountPath: /opt/application}
        - {name: tmp, mountPath: /tmp}
  {{- end }}
  containers:
    - name: tidegate
      command: [tidegate]
      args: {{- toYaml .facts.command | nindent 8 }}
      {{- include "tidegate.container" (dict "root" .root "image" $own.image "resources" $own.resources) | nindent 6 }}
      env: {{- include "tidegate.environment" . | nindent 8 }}
      ports:
        - {name: http, containerPort: 8080, protocol: TCP}
        {{- if .facts.owns }}
        - {name: link, containerPort: {{ int $values.link.port }}, protocol: TCP}
        {{- end }}
      {{- include "tidegate.probes" . | nindent 6 }}
      volumeMounts: {{- include "tidegate.mounts" (merge (dict "pod" $pod) .) | nindent 8 }}
  volumes: {{- include "tidegate.volumes" (merge (dict "pod" $pod) .) | nindent 4 }}
{{- end }}

{{/* The labels and annotations of a pod. Takes {root, name, pod, annotations}. */}}
{{- define "tidegate.podMetadata" -}}
labels: {{- include "tidegate.labels" (dict "root" .root "name" .name "own" .pod.labels) | nindent 2 }}
{{- with merge (default dict .annotations) .pod.annotations }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* What every pod has, a Job's too. */}}
{{- define "tidegate.podSecurity" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: {{ int .Values.runAs.user }}
  runAsGroup: {{ int .Values.runAs.group }}
  fsGroup: {{ int .Values.runAs.group }}
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* What every container has. Takes {root, image, resources}. */}}
{{- define "tidegate.container" -}}
image: {{ include "tidegate.image" . | quote }}
imagePullPolicy: {{ default .root.Values.image.pullPolicy (default dict .image).pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
resources: {{- toYaml .resources | nindent 2 }}
{{- end }}

{{/* /healthz answers from the start on, also while a store is restored, so no restore is cut short
however long it lasts: only readiness waits for it. Liveness never asks Kafka. */}}
{{- define "tidegate.probes" -}}
startupProbe:
  httpGet: {path: /healthz, port: http}
  periodSeconds: 2
  failureThreshold: 150
livenessProbe:
  httpGet: {path: /healthz, port: http}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: http}
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 2
{{- if eq .facts.serves "http" }}
# Balancers need some seconds to notice that this pod ends.
lifecycle: {preStop: {sleep: {seconds: 5}}}
{{- end }}
{{- end }}

{{/* Spreads pods over zones, then over nodes. Takes {root, name}. */}}
{{- define "tidegate.spread" -}}
{{- $root := .root -}}{{- $name := .name -}}
topologySpreadConstraints:
  {{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "tidegate.selector" (dict "root" $root "name" $name) | nindent 8 }}
  {{- end }}
{{- end }}

{{/* On which nodes pods run. Takes what the values say of the pod. */}}
{{- define "tidegate.nodes" -}}
{{- with .nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- end }}
