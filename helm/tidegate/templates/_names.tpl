{{/* The beginning of the names of all objects: the release's name, with the chart's unless it contains it. With
`-worker-` and the longest name of a worker it has the 63 characters that a Service's name may have. */}}
{{- define "tidegate.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- default $full .Values.fullnameOverride | trunc 35 | trimSuffix "-" -}}
{{- end }}

{{/* What selects the pods of a component; never changes. Takes {root, name}. */}}
{{- define "tidegate.selector" -}}
app.kubernetes.io/name: {{ default .root.Chart.Name .root.Values.nameOverride | trunc 63 | quote }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .name }}
{{- end }}

{{/* The labels of an object of a component: its own go before the common ones. Takes {root, name, own}. */}}
{{- define "tidegate.labels" -}}
{{- $given := merge (dict) (default dict .own) .root.Values.commonLabels -}}
{{- toYaml (merge $given (fromYaml (include "tidegate.standardLabels" .))) -}}
{{- end }}

{{- define "tidegate.standardLabels" -}}
{{ include "tidegate.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: tidegate
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name (replace "+" "_" .root.Chart.Version) }}
{{- end }}

{{/* The metadata of an object of a component. Takes {root, name, suffix, annotations}. */}}
{{- define "tidegate.metadata" -}}
name: {{ include "tidegate.fullname" .root }}-{{ default .name .suffix }}
namespace: {{ .root.Release.Namespace | quote }}
labels: {{- include "tidegate.labels" . | nindent 2 }}
{{- with .annotations }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* The image. Takes the chart's image, over which a worker's may be laid. */}}
{{- define "tidegate.image" -}}
{{- $of := fromYaml (include "tidegate.imageOver" (dict "common" .root.Values.image "own" .image)) -}}
{{- if $of.digest -}}
{{ $of.repository }}@{{ $of.digest }}
{{- else -}}
{{ $of.repository }}:{{ default .root.Chart.AppVersion $of.tag }}
{{- end -}}
{{- end }}

{{/* An image laid over another one, whose digest is that of no other repository or tag. Takes {common, own}. */}}
{{- define "tidegate.imageOver" -}}
{{- $common := deepCopy .common -}}{{- $own := default dict .own -}}
{{- range list "repository" "tag" -}}
{{- if and (get $own .) (ne (get $own .) (get $common .)) -}}{{- $_ := unset $common "digest" -}}{{- end -}}
{{- end -}}
{{- toYaml (mergeOverwrite $common $own) -}}
{{- end }}
