{{/*
The components that run, by name, as YAML. Of each:
  command    what the container runs
  stateful   whether it is a StatefulSet with a volume
  serves     `http`, an API beside the probes, or `probes` alone
  needs      keys: `vault`, `cluster`, `admin`
  egress     `public`: it calls customers' endpoints; `tools`: its handlers call what they want
  group      consumer group whose lag scales it
  reads      `all`: each pod reads all partitions; otherwise the pods share them
  values     what the values say of it
*/}}
{{- define "tidegate.components" -}}
{{- $all := dict -}}
{{- range $name, $facts := fromYaml (include "tidegate.stages" .) -}}
{{- $_ := set $all $name (set $facts "values" (index $.Values $name)) -}}
{{- end -}}
{{- range $name, $given := .Values.workers -}}
{{- $values := fromYaml (include "tidegate.worker" (dict "common" $.Values.worker "own" $given)) -}}
{{- $pool := default "default" $values.pool -}}
{{- $command := list "worker" "--app" $values.app "--pool" $pool "--slots" (printf "%d" (int $values.slots)) -}}
{{- $facts := dict "serves" "probes" "stateful" false "needs" (list "vault" "cluster") "egress" "tools" -}}
{{- $_ := set $all (printf "worker-%s" $name) (merge (dict "command" $command "pool" $pool "values" $values) $facts) -}}
{{- end -}}
{{- toYaml $all -}}
{{- end }}

{{/* A worker's values over those of all; an image, a user and a volume are not mixed. Takes {common, own}. */}}
{{- define "tidegate.worker" -}}
{{- $common := deepCopy .common -}}{{- $own := deepCopy .own -}}
{{- $_ := set $common "image" (fromYaml (include "tidegate.imageOver" (dict "common" (default dict $common.image) "own" $own.image))) -}}
{{- $user := dict "common" (default dict $common.kafkaUser) "own" (default dict $own.kafkaUser) -}}
{{- $_ := set $common "kafkaUser" (fromYaml (include "tidegate.sasl" $user)) -}}
{{- if (default dict $own.wheel).volume -}}{{- $_ := unset (default dict $common.wheel) "volume" -}}{{- end -}}
{{- toYaml (mergeOverwrite $common $own) -}}
{{- end }}

{{- define "tidegate.stages" -}}
{{- $together := list "dedup" "scheduler" "dispatcher" -}}
{{- if hasKey .Values.topology.overlay "fused" -}}
{{- $together = .Values.topology.overlay.fused -}}
{{- end -}}
{{- $fused := ternary $together list (eq .Values.layout "fused") -}}
{{- if .Values.ingress.enabled }}
ingress: {command: [ingress], stateful: false, serves: http, needs: [vault]}
{{- end }}
{{- if $fused }}
pipeline: {command: [pipeline], stateful: true, serves: probes, needs: [cluster], group: pipeline}
{{- end }}
{{- if not (has "dedup" $fused) }}
dedup: {command: [dedup], stateful: true, serves: probes, needs: [], group: dedup}
{{- end }}
{{- if not (has "scheduler" $fused) }}
scheduler: {command: [scheduler], stateful: true, serves: probes, needs: [], group: scheduler}
{{- end }}
{{- if not (has "dispatcher" $fused) }}
dispatcher: {command: [dispatcher], stateful: true, serves: probes, needs: [cluster], group: dispatcher}
{{- end }}
{{- if .Values.delivery.enabled }}
delivery: {command: [delivery], stateful: true, serves: probes, needs: [vault], group: delivery, egress: public}
{{- end }}
{{- if .Values.operator.enabled }}
operator: {command: [operator], stateful: {{ .Values.operator.persistence.enabled }}, serves: http, needs: [vault, admin], egress: public, reads: all}
{{- end }}
{{- if .Values.analytics.enabled }}
analytics: {command: [analytics], stateful: true, serves: http, needs: [admin]}
{{- end }}
{{- end }}

{{/* Partitions of every topic keyed by tenant: what the overlay says, or the built-in topology. */}}
{{- define "tidegate.partitions" -}}
{{ int (default 4 .Values.topology.overlay.partitions) }}
{{- end }}

{{/* Partitions of a pool's work topic: the built-in topology gives those of `default`. Takes {root, pool}. */}}
{{- define "tidegate.workPartitions" -}}
{{- $found := ternary 16 (int (include "tidegate.partitions" .root)) (eq .pool "default") -}}
{{- $topic := printf "jobs.work.%s" .pool -}}
{{- range .root.Values.topology.overlay.topics -}}
{{- if and (eq .name $topic) .partitions -}}{{- $found = int .partitions -}}{{- end -}}
{{- end -}}
{{ $found }}
{{- end }}

{{/* The most pods of a component that have something to do; empty if there is no limit. */}}
{{- define "tidegate.mostPods" -}}
{{- if .facts.pool -}}
{{ include "tidegate.workPartitions" (dict "root" .root "pool" .facts.pool) }}
{{- else if and .facts.stateful (ne (default "" .facts.reads) "all") -}}
{{ include "tidegate.partitions" .root }}
{{- end -}}
{{- end }}
