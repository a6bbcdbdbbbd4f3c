{{- define "firn.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{ .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- else -}}
{{- $name := .Values.nameOverride | default .Chart.Name -}}
{{ ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | trunc 52 | trimSuffix "-" }}
{{- end -}}
{{- end -}}

{{- define "firn.selector" -}}
app.kubernetes.io/name: firn
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "firn.labels" -}}
{{ include "firn.selector" . }}
app.kubernetes.io/part-of: firn
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end -}}

{{- define "firn.secret" -}}
{{ .Values.secret.name | default (include "firn.fullname" .) }}
{{- end -}}

{{- define "firn.service-account" -}}
{{- if or .Values.serviceAccount.create .Values.serviceAccount.name -}}
{{ .Values.serviceAccount.name | default (include "firn.fullname" .) }}
{{- else -}}
default
{{- end -}}
{{- end -}}

{{- define "firn.image" -}}
{{- $image := .Values.image -}}
{{ $image.repository }}{{ if $image.digest }}@{{ $image.digest }}{{ else }}:{{ $image.tag | default .Chart.AppVersion }}{{ end }}
{{- end -}}

{{/* A value in TOML. Helm reads every number as a float. */}}
{{- define "firn.toml-value" -}}
{{- if kindIs "slice" . -}}
[{{ range $position, $value := . }}{{ if $position }}, {{ end }}{{ include "firn.toml-value" $value }}{{ end }}]
{{- else if and (kindIs "float64" .) (eq (floor .) .) -}}
{{ int64 . }}
{{- else -}}
{{ toRawJson . }}
{{- end -}}
{{- end -}}

{{/* A table in TOML: its values first, then the tables in it. What is null is left out. */}}
{{- define "firn.toml" -}}
{{- range $key, $value := .table }}
{{- if not (or (kindIs "map" $value) (kindIs "invalid" $value)) }}
{{ $key }} = {{ include "firn.toml-value" $value }}
{{- end }}
{{- end }}
{{- range $key, $value := .table }}
{{- if kindIs "map" $value }}
{{- $name := ternary $key (printf "%s.%s" $.name $key) (empty $.name) }}

[{{ $name }}]
{{- include "firn.toml" (dict "table" $value "name" $name) }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "firn.config" -}}
{{ include "firn.toml" (dict "table" .Values.config "name" "") | trim }}
{{- end -}}

{{- define "firn.http-port" -}}
{{ dig "http" "port" 8080 .Values.config | int }}
{{- end -}}

{{/* What daemons and maintenance have in common: variables, mounts, volumes, the pod's settings. */}}
{{- define "firn.environment" -}}
- name: FIRN_CONFIG
  value: /etc/firn/firn.toml
{{- range $variable, $key := .Values.secret.files }}
{{- if $key }}
- name: {{ $variable }}
  value: /run/secrets/firn/{{ $key }}
{{- end }}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "firn.mounts" -}}
- {name: config, mountPath: /etc/firn, readOnly: true}
- {name: secrets, mountPath: /run/secrets/firn, readOnly: true}
- {name: tmp, mountPath: /tmp}
{{- if .Values.tls.secretName }}
- {name: tls, mountPath: /run/secrets/firn-tls, readOnly: true}
{{- end }}
{{- if .Values.warehouse.persistentVolumeClaim }}
- {name: warehouse, mountPath: {{ .Values.warehouse.mountPath }}}
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "firn.volumes" -}}
- name: config
  configMap:
    name: {{ include "firn.fullname" . }}
- name: secrets
  secret:
    secretName: {{ include "firn.secret" . }}
    defaultMode: 0440
- name: tmp
  emptyDir: {}
{{- with .Values.tls.secretName }}
- name: tls
  secret:
    secretName: {{ . }}
    defaultMode: 0440
{{- end }}
{{- with .Values.warehouse.persistentVolumeClaim }}
- name: warehouse
  persistentVolumeClaim:
    claimName: {{ . }}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "firn.pod" -}}
serviceAccountName: {{ include "firn.service-account" . }}
automountServiceAccountToken: false
# Variables of a Service firn-redis would be taken for settings, and refused.
enableServiceLinks: false
securityContext:
  {{- toYaml .Values.podSecurityContext | nindent 2 }}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "firn.container-security" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* The port of a URL, or the usual one of its scheme. */}}
{{- define "firn.port-of-url" -}}
{{- $url := urlParse . -}}
{{- $port := regexFind "[0-9]+$" (regexFind ":[0-9]+$" $url.host) -}}
{{ $port | default (ternary "80" "443" (eq $url.scheme "http")) }}
{{- end -}}
