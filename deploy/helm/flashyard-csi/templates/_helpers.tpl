{{- define "flashyard.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "flashyard.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{- /* A process beside the driver: what no sidecar needs is taken from it. */}}
{{- define "flashyard.sidecar" -}}
{{- with .resources -}}
resources: {{ toJson . }}
{{ end -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{- /* Sidecars limit their requests to 5 per second unless told otherwise: a pod with 300 volumes would
       wait for minutes. The API server itself sees to it that nobody has too much of it. */}}
{{- define "flashyard.requests" -}}
- --kube-api-qps=100
- --kube-api-burst=200
{{- end }}

{{- /* The secret of the service that tells of changed blocks, where there is that service. */}}
{{- define "flashyard.metadataSecret" -}}
{{- if .Values.snapshots.enabled }}{{ .Values.snapshots.metadataSecret }}{{ end }}
{{- end }}

{{- /* Where the pods of a part run. */}}
{{- define "flashyard.placement" -}}
{{- with .nodeSelector -}}
nodeSelector: {{ toJson . }}
{{ end -}}
{{- with .affinity -}}
affinity: {{ toJson . }}
{{ end -}}
{{- with .tolerations -}}
tolerations:
{{- range . }}
  - {{ toJson . }}
{{- end }}
{{ end -}}
{{- with .priorityClassName -}}
priorityClassName: {{ . }}
{{- end }}
{{- end }}

{{- define "flashyard.pullSecrets" -}}
{{- with .Values.imagePullSecrets -}}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
{{- end }}
