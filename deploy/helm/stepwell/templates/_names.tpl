{{- define "stepwell.name" -}}{{ if contains "stepwell" .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-stepwell{{ end }}{{- end }}
{{- define "stepwell.image" -}}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{- end }}
{{- define "stepwell.secret" -}}{{ .Values.secret.name | default (include "stepwell.name" .) }}{{- end }}
{{- define "stepwell.selector" -}}
app.kubernetes.io/name: stepwell
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- define "stepwell.labels" -}}
{{ include "stepwell.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}
{{- define "stepwell.pod" -}}
automountServiceAccountToken: false
securityContext: {runAsNonRoot: true, runAsUser: 65532, runAsGroup: 65532, fsGroup: 65532, fsGroupChangePolicy: OnRootMismatch, seccompProfile: {type: RuntimeDefault}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
{{- end }}
{{- define "stepwell.container" -}}
securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
{{- end }}
{{- define "stepwell.place" -}}
{{- with .nodeSelector }}
nodeSelector: {{ toJson . }}
{{- end }}
{{- with .tolerations }}
tolerations: {{ toJson . }}
{{- end }}
{{- with .affinity }}
affinity: {{ toJson . }}
{{- end }}
{{- end }}
