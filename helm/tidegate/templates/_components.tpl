{{/*
The components that run, by name, as YAML. Of each:
  command    what the container runs
  stateful   whether it is a StatefulSet with a volume
  serves     `http`, an API beside the probes, or `probes` alone
  needs      `kafka`, and keys: `vault`, `admin`; `link`: the token of workers
  owns       whether it owns jobs, so that workers dial it
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
{{- $facts := dict "serves" "probes" "stateful" false "needs" (list "link") "egress" "tools" -}}
{{- $_ := set $all (printf "worker-%s" $name) (merge (dict "command" $command "pool" $pool "values" $values) $facts) -}}
{{- end -}}
{{- toYaml $all -}}
{{- end }}

{{/* A worker's values over those of all; an image, a user and a volume are not mixed. Takes {common, own}. */}}
{{- define "tidegate.worker" -}}
{{- $common := deepCopy .common -}}{{- $own := deepCopy .own -}}
{{- $_ := set $common "image" (fromYaml (include "tidegate.imageOver" (dict "common" (default dict $common.image) "own" $own.image))) -}}
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
ingress: {command: [ingress], stateful: false, serves: http, needs: [kafka, vault]}
{{- end }}
{{- if $fused }}
pipeline: {command: [pipeline], stateful: true, serves: probes, needs: [kafka, vault{{ if has "dispatcher" $fused }}, link{{ end }}], group: pipeline, owns: {{ has "dispatcher" $fused }}}
{{- end }}
{{- if not (has "dedup" $fused) }}
dedup: {command: [dedup], stateful: true, serves: probes, needs: [kafka], group: dedup}
{{- end }}
{{- if not (has "scheduler" $fused) }}
scheduler: {command: [scheduler], stateful: true, serves: probes, needs: [kafka], group: scheduler}
{{- end }}
{{- if not (has "dispatcher" $fused) }}
dispatcher: {command: [dispatcher], stateful: true, serves: probes, needs: [kafka, vault, link], group: dispatcher, owns: true}
{{- end }}
{{- if .Values.delivery.enabled }}
delivery: {command: [delivery], stateful: true, serves: probes, needs: [kafka, vault], group: delivery, egress: public}
{{- end }}
{{- if .Values.operator.enabled }}
operator: {command: [operator], stateful: {{ .Values.operator.persistence.enabled }}, serves: http, needs: [kafka, vault, admin], egress: public, reads: all}
{{- end }}
{{- if .Values.analytics.enabled }}
analytics: {command: [analytics], stateful: true, serves: http, needs: [kafka, admin]}
{{- end }}
{{- end }}

{{/* Partitions of every topic keyed by tenant: what the overlay says, or the built-in topology. */}}
{{- define "tidegate.partitions" -}}
{{ int (default 4 .Values.topology.overlay.partitions) }}
{{- end }}

{{/* The owners of partitions: the component that workers dial. */}}
{{- define "tidegate.owner" -}}
{{- range $name, $facts := fromYaml (include "tidegate.stages" .) -}}{{- if $facts.owns -}}{{ $name }}{{- end -}}{{- end -}}
{{- end }}

{{/* The most pods of a component that have something to do; empty if there is no limit. */}}
{{- define "tidegate.mostPods" -}}
{{- if and .facts.stateful (ne (default "" .facts.reads) "all") -}}
{{ include "tidegate.partitions" .root }}
{{- end -}}
{{- end }}
