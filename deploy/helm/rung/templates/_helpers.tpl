{{- define "rung.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" }}
{{- end }}

{{/* At most 40 characters: a pod's name adds up to 18, and the name of a Rung node has at most 64. */}}
{{- define "rung.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains (include "rung.name" .) .Release.Name }}
{{- .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "rung.name" .) | trunc 40 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "rung.selectorLabels" -}}
app.kubernetes.io/name: {{ include "rung.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "rung.labels" -}}
{{ include "rung.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "rung.secretName" -}}
{{- default (include "rung.fullname" .) .Values.secret.existing }}
{{- end }}

{{- define "rung.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "rung.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "rung.image" -}}
{{- if .Values.image.digest }}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}
{{- end }}

{{/* The Job that migrates: no selector of the sidecars may match its pod. */}}
{{- define "rung.migrateLabels" -}}
app.kubernetes.io/name: {{ include "rung.name" . }}-migrate
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{/* rung.yaml: configText as it is, or config with what tls.http and migrate add. */}}
{{- define "rung.config" -}}
{{- if .Values.configText }}
{{- if and .Values.migrate.enabled (not (regexMatch "migrate: *false" .Values.configText)) }}
{{- fail "migrate.enabled: configText needs store.migrate: false, for the pods have not the rights to migrate" }}
{{- end }}
{{- .Values.configText }}
{{- else }}
{{- $config := deepCopy .Values.config }}
{{- if .Values.tls.http }}
{{- $_ := set $config "http" (merge (default dict $config.http) (dict "cert" "/etc/rung/http-tls/tls.crt" "key" "/etc/rung/http-tls/tls.key")) }}
{{- end }}
{{- if .Values.migrate.enabled }}
{{- $_ := set $config "store" (mergeOverwrite (default dict $config.store) (dict "migrate" false)) }}
{{- end }}
{{- toYaml $config }}
{{- end }}
{{- end }}

{{/* The rung.yaml of the Job that migrates. */}}
{{- define "rung.migrateConfig" -}}
{{- if .Values.configText }}
{{- required "migrate.enabled: with configText the Job needs migrate.configText" .Values.migrate.configText }}
{{- else if .Values.migrate.configText }}
{{- .Values.migrate.configText }}
{{- else }}
{{- toYaml (mergeOverwrite (deepCopy .Values.config) (deepCopy .Values.migrate.config)) }}
{{- end }}
{{- end }}
