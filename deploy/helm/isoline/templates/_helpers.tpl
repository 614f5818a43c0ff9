{{- define "isoline.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "isoline.labels" -}}
app.kubernetes.io/name: isoline
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
isoline.region: {{ .Values.region }}
{{- end -}}

{{- define "isoline.selector" -}}
app.kubernetes.io/name: isoline
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "isoline.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- define "isoline.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "isoline.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- define "isoline.toml" -}}
topology = {{ .Values.topology | quote }}
leader_region = {{ .Values.leaderRegion | quote }}
drain_grace_s = {{ .Values.server.drainGraceSeconds }}.0
append_lanes = {{ .Values.server.appendLanes }}
reader_connections = {{ .Values.server.readerConnections }}
local_deadline_ms = {{ .Values.server.localDeadlineMs }}
log_level = {{ .Values.logLevel | quote }}
{{- if .Values.otlpEndpoint }}
otlp_endpoint = {{ .Values.otlpEndpoint | quote }}
{{- end }}
{{- range .Values.regions }}

[regions.{{ . }}]
listen = "0.0.0.0:{{ $.Values.server.port }}"
{{- end }}
{{- end -}}
