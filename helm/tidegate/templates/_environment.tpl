{{/* The variables of a component's container. Takes {root, name, facts}. */}}
{{- define "tidegate.environment" -}}
{{- $own := fromYamlArray (include "tidegate.componentEnvironment" .) -}}
{{- include "tidegate.onceEach" (concat $own .root.Values.pod.extraEnv (default list .facts.values.pod.extraEnv)) -}}
{{- end }}

{{/* Variables, of which the last one of a name counts: a name that stands twice is refused by Helm 4. Those that refer
to others stand behind them: Kubernetes knows only those that stand before. */}}
{{- define "tidegate.onceEach" -}}
{{- $plain := list -}}{{- $referring := list -}}{{- $last := dict -}}
{{- range . -}}{{- $_ := set $last .name . -}}{{- end -}}
{{- range . -}}
{{- if contains "$(" (toString (get $last .name).value) -}}
{{- $referring = append $referring .name -}}
{{- else -}}
{{- $plain = append $plain .name -}}
{{- end -}}
{{- end -}}
{{- $left := uniq $referring -}}{{- $ordered := uniq $plain -}}
{{- range $left -}}{{- range $name := $left -}}
{{- $waits := false -}}
{{- range $other := without $left $name -}}
{{- if contains (printf "$(%s)" $other) (get $last $name).value -}}{{- $waits = true -}}{{- end -}}
{{- end -}}
{{- if not $waits -}}{{- $ordered = append $ordered $name -}}{{- $left = without $left $name -}}{{- end -}}
{{- end -}}{{- end -}}
{{- range concat $ordered $left }}
- {{ toYaml (get $last .) | nindent 2 | trim }}
{{- end }}
{{- end }}

{{- define "tidegate.componentEnvironment" -}}
{{- $values := .root.Values -}}
- {name: TIDEGATE_DATA_DIR, value: /var/lib/tidegate}
{{- if .facts.stateful }}
- name: TIDEGATE_INSTANCE
  valueFrom: {fieldRef: {fieldPath: "metadata.labels['apps.kubernetes.io/pod-index']"}}
{{- else }}
- name: TIDEGATE_INSTANCE
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
{{- end }}
- {name: TIDEGATE_HOST, value: {{ $values.listen | quote }}}
- {name: {{ ternary "TIDEGATE_PORT" "TIDEGATE_PROBE_PORT" (eq .facts.serves "http") }}, value: "8080"}
{{- if has "vault" .facts.needs }}
{{- $files := list -}}
{{- range $values.keys.vault.entries -}}{{- $files = append $files (printf "/etc/tidegate/keys/vault/%s" .) -}}{{- end }}
- {name: TIDEGATE_VAULT_KEY_FILE, value: {{ join "," $files | quote }}}
{{- end }}
{{- if has "link" .facts.needs }}
{{ include "tidegate.linkEnvironment" . }}
{{- end }}
{{- if has "admin" .facts.needs }}
- name: TIDEGATE_ADMIN_TOKEN
  valueFrom: {secretKeyRef: {name: {{ $values.keys.adminToken.secretName | quote }}, key: {{ $values.keys.adminToken.entry | quote }}}}
{{- end }}
{{- if .facts.values.wheel }}
- {name: PYTHONPATH, value: /opt/application}
{{- end }}
{{ include "tidegate.commonEnvironment" .root }}
{{- if has "kafka" .facts.needs }}
{{ include "tidegate.kafkaEnvironment" (dict "root" .root "kafkaUser" .facts.values.kafkaUser) }}
{{- end }}
{{ include "tidegate.settingsEnvironment" . }}
{{- end }}

{{/* Where the owners of partitions listen, or where a worker finds them, and the token between them. Takes {root, facts}. */}}
{{- define "tidegate.linkEnvironment" -}}
{{- $link := .root.Values.link -}}
{{- $token := mergeOverwrite (deepCopy .root.Values.keys.link) (default dict .facts.values.token) -}}
{{- if .facts.owns }}
- {name: TIDEGATE_LINK_LISTEN, value: {{ printf "%s:%d" (ternary (printf "[%s]" .root.Values.listen) .root.Values.listen (contains ":" .root.Values.listen)) (int $link.port) | quote }}}
{{- if $link.certificate.secretName }}
- {name: TIDEGATE_LINK_CERT, value: /etc/tidegate/link/tls.crt}
- {name: TIDEGATE_LINK_KEY, value: /etc/tidegate/link/tls.key}
{{- end }}
{{- else }}
- {name: TIDEGATE_LINK, value: {{ printf "%s://%s-%s:%d" (ternary "wss" "ws" (not (empty $link.certificate.secretName))) (include "tidegate.fullname" .root) (include "tidegate.owner" .root) (int $link.port) | quote }}}
{{- if and $link.certificate.secretName $link.ca.secretName }}
- {name: TIDEGATE_LINK_CA, value: /etc/tidegate/link/ca.crt}
{{- end }}
{{- end }}
{{- if $token.secretName }}
- name: TIDEGATE_LINK_TOKEN
  valueFrom: {secretKeyRef: {name: {{ $token.secretName | quote }}, key: {{ $token.entry | quote }}}}
{{- end }}
{{- end }}

{{/* What every command has: the topology, and how it logs. */}}
{{- define "tidegate.commonEnvironment" -}}
- {name: TIDEGATE_TOPOLOGY, value: /etc/tidegate/topology/topology.yaml}
- {name: TIDEGATE_LOG_FORMAT, value: {{ .Values.log.format }}}
- {name: TIDEGATE_LOG_LEVEL, value: {{ .Values.log.level }}}
{{- end }}

{{/* How a command that speaks to Kafka finds it, and its user. Takes {root, kafkaUser}. */}}
{{- define "tidegate.clientEnvironment" -}}
{{ include "tidegate.commonEnvironment" .root }}
{{ include "tidegate.kafkaEnvironment" . }}
{{- end }}

{{- define "tidegate.kafkaEnvironment" -}}
{{- $kafka := .root.Values.kafka -}}
- {name: TIDEGATE_BOOTSTRAP, value: {{ $kafka.bootstrap | quote }}}
{{- with $kafka.topicPrefix }}
- {name: TIDEGATE_TOPIC_PREFIX, value: {{ . | quote }}}
{{- end }}
- {name: TIDEGATE_KAFKA_SECURITY_PROTOCOL, value: {{ $kafka.securityProtocol }}}
{{- if $kafka.ca.secretName }}
- {name: TIDEGATE_KAFKA_SSL_CA_LOCATION, value: /etc/tidegate/kafka/ca.crt}
{{- end }}
{{- if hasPrefix "SASL" $kafka.securityProtocol }}
{{ include "tidegate.saslEnvironment" (fromYaml (include "tidegate.sasl" (dict "common" $kafka.sasl "own" (default dict .kafkaUser)))) }}
{{- else if (fromYaml (include "tidegate.clientCertificate" .)).secretName }}
- {name: TIDEGATE_KAFKA_SSL_CERTIFICATE_LOCATION, value: /etc/tidegate/kafka/user.crt}
- {name: TIDEGATE_KAFKA_SSL_KEY_LOCATION, value: /etc/tidegate/kafka/user.key}
{{- end }}
{{- range $name, $value := $kafka.settings }}
- {name: {{ include "tidegate.kafkaVariable" $name }}, value: {{ include "tidegate.text" $value | quote }}}
{{- end }}
{{- end }}

{{/* The variable of a setting of librdkafka. */}}
{{- define "tidegate.kafkaVariable" -}}
TIDEGATE_KAFKA_{{ . | replace "." "_" | upper }}
{{- end }}

{{/* A user and its Secret: the common user's name does not go with a Secret of one's own. */}}
{{- define "tidegate.sasl" -}}
{{- $common := deepCopy .common -}}
{{- if .own.secretName -}}{{- $_ := unset $common "username" -}}{{- end -}}
{{- if .own.username -}}{{- $_ := unset $common "usernameKey" -}}{{- end -}}
{{- toYaml (mergeOverwrite $common .own) -}}
{{- end }}

{{- define "tidegate.saslEnvironment" -}}
- {name: TIDEGATE_KAFKA_SASL_MECHANISM, value: {{ .mechanism }}}
- name: TIDEGATE_KAFKA_SASL_USERNAME
{{- if .usernameKey }}
  valueFrom: {secretKeyRef: {name: {{ .secretName | quote }}, key: {{ .usernameKey | quote }}}}
{{- else }}
  value: {{ default .secretName .username | quote }}
{{- end }}
- name: TIDEGATE_KAFKA_SASL_PASSWORD
  valueFrom: {secretKeyRef: {name: {{ .secretName | quote }}, key: {{ .passwordKey | quote }}}}
{{- end }}

{{/* Settings by their names in tidegate.toml; a component's go before the common ones. */}}
{{- define "tidegate.settingsEnvironment" -}}
{{- $console := .root.Values.console -}}
{{- $settings := mergeOverwrite (deepCopy .root.Values.settings) .facts.values.settings -}}
{{- if and (eq (default "" .facts.egress) "public") $console.hosts -}}
{{- $given := splitList "," (include "tidegate.text" (default list $settings.egress_own_hosts)) -}}
{{- $_ := set $settings "egress_own_hosts" (concat $console.hosts (without $given "")) -}}
{{- end -}}
{{- include "tidegate.settingsVariables" $settings -}}
{{- end }}

{{/* The variables of settings by their names in tidegate.toml. */}}
{{- define "tidegate.settingsVariables" -}}
{{- range $name, $value := . }}
- {name: TIDEGATE_{{ upper $name }}, value: {{ include "tidegate.text" $value | quote }}}
{{- end }}
{{- end }}

{{/* A setting as the environment has it: lists with commas, large numbers without an exponent. */}}
{{- define "tidegate.text" -}}
{{- if kindIs "slice" . -}}
{{ join "," . }}
{{- else if and (kindIs "float64" .) (eq (floor .) .) -}}
{{ int64 . }}
{{- else -}}
{{ . }}
{{- end -}}
{{- end }}
