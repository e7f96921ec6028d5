{{/* What values.schema.json cannot say: rules over several values. Each failure names the value. */}}
{{- define "tidegate.check" -}}
{{- if not .Values.kafka.bootstrap -}}
{{- fail "kafka.bootstrap is empty: name the brokers of your Kafka, such as kafka-1:9092,kafka-2:9092 (the chart brings no Kafka)" -}}
{{- end -}}
{{- $full := include "tidegate.fullname" . -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $full) -}}
{{- fail (printf "%s, from the release's name or fullnameOverride, is no name that a Service may have (a letter, then letters, digits and -): set fullnameOverride" $full) -}}
{{- end -}}
{{- $labels := merge (dict) .Values.commonLabels .Values.pod.labels -}}
{{- range $name, $facts := fromYaml (include "tidegate.components" .) -}}{{- $labels = merge $labels (default dict $facts.values.pod.labels) -}}{{- end -}}
{{- range $key, $_ := $labels -}}
{{- if has $key (list "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/component") -}}
{{- fail (printf "the label %s cannot be given: it selects the pods of a component" $key) -}}
{{- end -}}
{{- end -}}
{{- range $key, $of := omit .Values.keys "link" -}}
{{- if not $of.secretName -}}
{{- fail (printf "keys.%s.secretName is empty: make the Secret and name it; the chart's README says how" $key) -}}
{{- end -}}
{{- end -}}
{{- range $name, $facts := fromYaml (include "tidegate.components" .) -}}
{{- if and (hasKey $facts "pool") (not (default dict $facts.values.token).secretName) (not $.Values.keys.link.secretName) -}}
{{- fail (printf "keys.link.secretName is empty, and workers.%s has no token of its own: make the Secret and name it, or name that of a token under workers.%s.token" (trimPrefix "worker-" $name) (trimPrefix "worker-" $name)) -}}
{{- end -}}
{{- end -}}
{{- include "tidegate.checkKafka" . -}}
{{- include "tidegate.checkComponents" . -}}
{{- include "tidegate.checkPools" . -}}
{{- include "tidegate.checkPublic" . -}}
{{- end }}

{{- define "tidegate.checkKafka" -}}
{{- $kafka := .Values.kafka -}}
{{- if hasPrefix "SASL" $kafka.securityProtocol -}}
{{- $without := ternary (list) (list "topology") (not (empty .Values.topology.kafkaUser.secretName)) -}}
{{- range $name, $facts := fromYaml (include "tidegate.components" .) -}}
{{- if and (has "kafka" $facts.needs) (not $facts.values.kafkaUser.secretName) -}}{{- $without = append $without $name -}}{{- end -}}
{{- end -}}
{{- if and $without (not $kafka.sasl.secretName) -}}
{{- fail (printf "kafka.sasl.secretName is empty, but kafka.securityProtocol is %s: name the Secret with the password, or a kafkaUser of each of: %s" $kafka.securityProtocol (join ", " $without)) -}}
{{- end -}}
{{- else if $kafka.sasl.secretName -}}
{{- fail (printf "kafka.sasl.secretName is set, but kafka.securityProtocol is %s, which sends no password: use SASL_SSL" $kafka.securityProtocol) -}}
{{- end -}}
{{- if and $kafka.clientCertificate.secretName (ne $kafka.securityProtocol "SSL") -}}
{{- fail (printf "kafka.clientCertificate.secretName is set, but kafka.securityProtocol is %s, for which the chart shows no client certificate: use SSL, or kafka.settings with the paths of a volume" $kafka.securityProtocol) -}}
{{- end -}}
{{- range $name, $value := $kafka.settings -}}
{{- $variable := include "tidegate.kafkaVariable" $name -}}
{{- include "tidegate.checkVariable" (dict "root" $ "where" (printf "kafka.settings.%s" $name) "variable" $variable) -}}
{{- if regexMatch "PASSWORD|PASSPHRASE|SECRET|JAAS|KEY_PEM|OAUTHBEARER_CONFIG" $variable -}}
{{- fail (printf "kafka.settings.%s holds a secret, which everybody who may see a pod could read: use kafka.sasl.secretName, kafka.clientCertificate.secretName, or pod.extraEnv with the variable %s from a Secret" $name $variable) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* A setting of Kafka's clients that the chart gives itself, which would be given twice. */}}
{{- define "tidegate.checkVariable" -}}
{{- $kafka := .root.Values.kafka -}}
{{- $taken := dict "SECURITY_PROTOCOL" "securityProtocol" "SASL_MECHANISM" "sasl.mechanism" "SASL_MECHANISMS" "sasl.mechanism" "SASL_USERNAME" "sasl.username" -}}
{{- if $kafka.ca.secretName -}}{{- $_ := set $taken "SSL_CA_LOCATION" "ca" -}}{{- end -}}
{{- if $kafka.clientCertificate.secretName -}}
{{- $_ := set $taken "SSL_CERTIFICATE_LOCATION" "clientCertificate" -}}
{{- $_ := set $taken "SSL_KEY_LOCATION" "clientCertificate" -}}
{{- end -}}
{{- with get $taken (trimPrefix "TIDEGATE_KAFKA_" .variable) -}}
{{- fail (printf "%s is what kafka.%s gives: use that instead" $.where .) -}}
{{- end -}}
{{- end }}

{{/* Settings by their names in tidegate.toml. Takes {root, where, settings}. */}}
{{- define "tidegate.checkSettings" -}}
{{- range $name, $value := .settings -}}
{{- $named := dict "root" $.root "where" (printf "%s.%s" $.where $name) -}}
{{- include "tidegate.checkVariable" (merge (dict "variable" (printf "TIDEGATE_%s" (upper $name))) $named) -}}
{{- end -}}
{{- if contains "@" (toString .settings.egress_proxy) -}}
{{- fail (printf "%s.egress_proxy holds a password, which everybody who may see a pod could read: use the pod.extraEnv of delivery and operator with the variable TIDEGATE_EGRESS_PROXY from a Secret" .where) -}}
{{- end -}}
{{- end }}

{{- define "tidegate.checkComponents" -}}
{{- include "tidegate.checkSettings" (dict "root" . "where" "settings" "settings" .Values.settings) -}}
{{- if hasKey .Values.settings "slots" -}}
{{- fail "settings.slots is what worker.slots gives: use that instead" -}}
{{- end -}}
{{- range $name, $given := .Values.workers -}}
{{- if not $given.app -}}
{{- fail (printf "workers.%s.app is empty: name the application as module:attribute, such as support.app:app" $name) -}}
{{- end -}}
{{- end -}}
{{- if .Values.analytics.autoscaling.enabled -}}
{{- fail "analytics.autoscaling.enabled cannot be true: each process answers for the partitions that it counts, so set analytics.replicas" -}}
{{- end -}}
{{- range $name, $facts := fromYaml (include "tidegate.components" .) -}}
{{- $most := include "tidegate.mostPods" (dict "root" $ "facts" $facts) -}}
{{- $scaled := default dict $facts.values.autoscaling -}}
{{- $where := ternary (printf "workers.%s" (trimPrefix "worker-" $name)) $name (hasKey $facts "pool") -}}
{{- if and $most (not $scaled.enabled) (gt (int $facts.values.replicas) (int $most)) -}}
{{- fail (printf "%s.replicas is %d, but only %s pods would have a partition: use fewer, or more partitions (topology.overlay)" $where (int $facts.values.replicas) $most) -}}
{{- end -}}
{{- if and $scaled.enabled $facts.pool (not $.Values.autoscaling.prometheus) -}}
{{- fail (printf "%s.autoscaling.enabled needs autoscaling.prometheus, the address of Prometheus: the jobs that wait are counted there" $where) -}}
{{- end -}}
{{- if and $facts.pool (hasKey $facts.values.settings "slots") -}}
{{- fail (printf "%s.settings.slots is what %s.slots gives: use that instead" $where $where) -}}
{{- end -}}
{{- with $facts.values.wheel -}}
{{- if not (and .volume .files) -}}
{{- fail (printf "%s.wheel needs both volume and files: the volume with the wheels, and their names in it" $where) -}}
{{- end -}}
{{- end -}}
{{- if and $scaled.enabled $most (gt (int $scaled.maxReplicas) (int $most)) -}}
{{- fail (printf "%s.autoscaling.maxReplicas is %d, but only %s pods would have a partition" $where (int $scaled.maxReplicas) $most) -}}
{{- end -}}
{{- $highest := int (default $most $scaled.maxReplicas) -}}
{{- if and $scaled.enabled (gt (int $scaled.minReplicas) $highest) -}}
{{- fail (printf "%s.autoscaling.minReplicas is %d, but there may be %d pods at most (autoscaling.maxReplicas, or one for each partition): use fewer" $where (int $scaled.minReplicas) $highest) -}}
{{- end -}}
{{- include "tidegate.checkSettings" (dict "root" $ "where" (printf "%s.settings" $where) "settings" $facts.values.settings) -}}
{{- end -}}
{{- end }}

{{- define "tidegate.checkPools" -}}
{{- $declared := list "default" -}}
{{- range .Values.topology.overlay.pools -}}{{- $declared = append $declared .name -}}{{- end -}}
{{- range $name, $facts := fromYaml (include "tidegate.components" .) -}}
{{- if and $facts.pool (not (has $facts.pool $declared)) -}}
{{- fail (printf "workers.%s.pool is %s, which the topology does not have: declare it under topology.overlay.pools" (trimPrefix "worker-" $name) $facts.pool) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "tidegate.checkPublic" -}}
{{- range $name, $component := dict "hooks" "ingress" "console" "operator" -}}
{{- $of := index $.Values $name -}}
{{- if and (or $of.ingress.enabled $of.gateway.enabled) (not (index $.Values $component).enabled) -}}
{{- fail (printf "%s leads to the component %s, but %s.enabled is false: set it, or turn %s.ingress and %s.gateway off" $name $component $component $name $name) -}}
{{- end -}}
{{- if and (or $of.ingress.enabled $of.gateway.enabled) (not $of.hosts) -}}
{{- fail (printf "%s.hosts is empty: name the hosts that lead to it" $name) -}}
{{- end -}}
{{- if and $of.gateway.enabled (not $of.gateway.parentRefs) -}}
{{- fail (printf "%s.gateway.parentRefs is empty: name the Gateways that the route belongs to" $name) -}}
{{- end -}}
{{- if and (eq $name "console") (or $of.ingress.enabled $of.gateway.enabled) $.Values.networkPolicy.enabled (not $.Values.networkPolicy.consoleFrom) -}}
{{- fail "networkPolicy.consoleFrom is empty: name the pods that console leads through, those of the ingress controller or Gateway, as peers" -}}
{{- end -}}
{{- end -}}
{{- end }}
