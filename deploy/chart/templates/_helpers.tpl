{{- define "gatehouse.selector" -}}
app.kubernetes.io/name: gatehouse
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "gatehouse.labels" -}}
{{ include "gatehouse.selector" . }}
app.kubernetes.io/part-of: gatehouse
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "gatehouse.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- /* The rights of the enabled plugins, each rule once. files/access.yaml is made from the plugins. */ -}}
{{- define "gatehouse.rights" -}}
{{- $access := .Files.Get "files/access.yaml" | fromYaml }}
{{- $rules := list }}
{{- range $plugin := .Values.plugins }}
{{- if not (hasKey $access $plugin) }}
{{- fail (printf "plugins: %q is no plugin that can run outside the API server" $plugin) }}
{{- end }}
{{- range get $access $plugin }}
{{- if not (has . $rules) }}
{{- $rules = append $rules . }}
{{- end }}
{{- end }}
{{- end }}
{{- toYaml $rules }}
{{- end }}

{{- /* The AdmissionConfiguration, empty where no plugin has one. */ -}}
{{- define "gatehouse.configuration" -}}
{{- if .Values.configuration -}}
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
{{- range $plugin, $configuration := .Values.configuration }}
{{- if not (has $plugin $.Values.plugins) }}
{{- fail (printf "configuration: %q is not among the plugins" $plugin) }}
{{- end }}
- name: {{ $plugin }}
  configuration:
    {{- toYaml $configuration | nindent 4 }}
{{- end }}
{{- end }}
{{- end }}

{{- define "gatehouse.failurePolicy" -}}
{{- $policies := list }}
{{- range $plugin, $policy := .Values.failurePolicy }}
{{- if not (has $plugin $.Values.plugins) }}
{{- fail (printf "failurePolicy: %q is not among the plugins" $plugin) }}
{{- end }}
{{- $policies = append $policies (printf "%s=%s" $plugin $policy) }}
{{- end }}
{{- join "," $policies }}
{{- end }}

{{- define "gatehouse.mode" -}}
{{- $modes := list }}
{{- range $plugin, $mode := .Values.mode }}
{{- if not (has $plugin $.Values.plugins) }}
{{- fail (printf "mode: %q is not among the plugins" $plugin) }}
{{- end }}
{{- $modes = append $modes (printf "%s=%s" $plugin $mode) }}
{{- end }}
{{- join "," $modes }}
{{- end }}

{{- define "gatehouse.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65534
runAsGroup: 65534
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "gatehouse.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}
