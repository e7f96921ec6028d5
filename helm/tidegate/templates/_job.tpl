{{/* The pod of a Job that runs one command of `tidegate topology`. It has what all pods have in common, and no ports,
keys or state. A stage that ends is gone after its session. Takes {root, name, args, restartPolicy, topology}. */}}
{{- define "tidegate.jobPod" -}}
{{- $pod := .root.Values.pod -}}
{{- $of := dict "root" .root "kafkaUser" .root.Values.topology.kafkaUser "topology" .topology "pod" $pod -}}
metadata: {{- include "tidegate.podMetadata" (dict "root" .root "name" .name "pod" $pod) | nindent 2 }}
spec:
  {{- include "tidegate.podSecurity" .root | nindent 2 }}
  restartPolicy: {{ .restartPolicy }}
  {{- include "tidegate.nodes" $pod | nindent 2 }}
  containers:
    - name: tidegate
      command: [tidegate]
      args: {{- toYaml .args | nindent 8 }}
      {{- include "tidegate.container" (dict "root" .root "resources" .root.Values.topology.resources) | nindent 6 }}
      env:
        {{- $own := fromYamlArray (include "tidegate.clientEnvironment" $of) }}
        {{- $settings := deepCopy .root.Values.settings -}}
        {{- with dig "settings" "session_seconds" "" (default dict .root.Values.pipeline) -}}{{- $_ := set $settings "session_seconds" . -}}{{- end -}}
        {{- $given := fromYamlArray (include "tidegate.settingsVariables" $settings) }}
        {{- include "tidegate.onceEach" (concat $own $given $pod.extraEnv) | nindent 8 }}
      volumeMounts: {{- include "tidegate.clientMounts" $of | nindent 8 }}
  volumes: {{- include "tidegate.clientVolumes" $of | nindent 4 }}
{{- end }}
