{{/* Where a component's container mounts its volumes. Takes {root, facts, pod}. */}}
{{- define "tidegate.mounts" -}}
- {name: state, mountPath: /var/lib/tidegate}
{{ include "tidegate.clientMounts" (dict "root" .root "kafkaUser" .facts.values.kafkaUser "pod" .pod "kafkaless" (not (has "kafka" .facts.needs))) }}
{{- if has "vault" .facts.needs }}
- {name: keys, mountPath: /etc/tidegate/keys, readOnly: true}
{{- end }}
{{- if include "tidegate.linkFiles" . }}
- {name: link, mountPath: /etc/tidegate/link, readOnly: true}
{{- end }}
{{- if .facts.values.wheel }}
- {name: application, mountPath: /opt/application, readOnly: true}
{{- end }}
{{- end }}

{{/* What any command that speaks to Kafka mounts. Takes {root, kafkaUser, pod}. */}}
{{- define "tidegate.clientMounts" -}}
- {name: tmp, mountPath: /tmp}
- {name: topology, mountPath: /etc/tidegate/topology, readOnly: true}
{{- if include "tidegate.kafkaFiles" . }}
- {name: kafka, mountPath: /etc/tidegate/kafka, readOnly: true}
{{- end }}
{{- with .pod.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* A component's volumes; a StatefulSet's `state` is a claim of its own. Takes {root, facts, pod}. */}}
{{- define "tidegate.volumes" -}}
{{- $own := .facts.values -}}
{{- if not (and .facts.stateful $own.persistence.enabled) }}
- name: state
  emptyDir: {sizeLimit: {{ (default dict $own.persistence).size | default "1Gi" }}}
{{- end }}
{{ include "tidegate.clientVolumes" (dict "root" .root "kafkaUser" $own.kafkaUser "topology" "topology" "pod" .pod "kafkaless" (not (has "kafka" .facts.needs))) }}
{{- with include "tidegate.linkFiles" . }}
- name: link
  projected:
    defaultMode: 0440
    sources: {{- . | nindent 6 }}
{{- end }}
{{- if has "vault" .facts.needs }}
- name: keys
  projected:
    defaultMode: 0440
    sources:
      - secret:
          name: {{ .root.Values.keys.vault.secretName | quote }}
          items: {{- range .root.Values.keys.vault.entries }}
            - {key: {{ . | quote }}, path: {{ printf "vault/%s" . | quote }}}
            {{- end }}
{{- end }}
{{- if $own.wheel }}
- name: wheels
  {{- toYaml $own.wheel.volume | nindent 2 }}
- {name: application, emptyDir: {}}
{{- end }}
{{- end }}

{{/* The volumes of any command that speaks to Kafka. Takes {root, kafkaUser, topology, pod}. */}}
{{- define "tidegate.clientVolumes" -}}
- {name: tmp, emptyDir: {sizeLimit: 256Mi}}
- {name: topology, configMap: {name: {{ include "tidegate.fullname" .root }}-{{ .topology }}}}
{{- with include "tidegate.kafkaFiles" . }}
- name: kafka
  projected:
    defaultMode: 0440
    sources: {{- . | nindent 6 }}
{{- end }}
{{- with .pod.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The Secret of the client certificate of a user, and its entries; nothing without one. */}}
{{- define "tidegate.clientCertificate" -}}
{{- $kafka := .root.Values.kafka -}}
{{- if eq $kafka.securityProtocol "SSL" -}}
{{ mergeOverwrite (deepCopy $kafka.clientCertificate) (default dict .kafkaUser) | toYaml }}
{{- end -}}
{{- end }}

{{/* The certificate of the link, or the authority that signed it; empty if there is none. Takes {root, facts}. */}}
{{- define "tidegate.linkFiles" -}}
{{- $link := .root.Values.link -}}
{{- if and (has "link" .facts.needs) $link.certificate.secretName -}}
{{- if .facts.owns }}
- secret:
    name: {{ $link.certificate.secretName | quote }}
    items:
      - {key: {{ $link.certificate.certificateKey | quote }}, path: tls.crt}
      - {key: {{ $link.certificate.privateKeyKey | quote }}, path: tls.key}
{{- else if $link.ca.secretName }}
- secret: {name: {{ $link.ca.secretName | quote }}, items: [{key: {{ $link.ca.key | quote }}, path: ca.crt}]}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Certificates and the private key towards Kafka; empty if there are none. Takes {root, kafkaUser, kafkaless}. */}}
{{- define "tidegate.kafkaFiles" -}}
{{- if not .kafkaless -}}
{{- $kafka := .root.Values.kafka -}}
{{- with $kafka.ca }}
{{- if .secretName }}
- secret: {name: {{ .secretName | quote }}, items: [{key: {{ .key | quote }}, path: ca.crt}]}
{{- end }}
{{- end }}
{{- $shown := fromYaml (include "tidegate.clientCertificate" .) -}}
{{- if $shown.secretName }}
- secret:
    name: {{ $shown.secretName | quote }}
    items:
      - {key: {{ $shown.certificateKey | quote }}, path: user.crt}
      - {key: {{ $shown.privateKeyKey | quote }}, path: user.key}
{{- end }}
{{- end -}}
{{- end }}
