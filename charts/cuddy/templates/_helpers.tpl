{{- /* The labels of everything in this chart. Names are fixed: the operator's Lease, its Secret and the policies of its
       environments name them, so that a namespace holds one release. */}}
{{- define "cuddy.labels" -}}
{{ include "cuddy.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- /* Environments' policies let in pods with this name from this namespace, and nobody else. */}}
{{- define "cuddy.selector" -}}
app.kubernetes.io/name: cuddy-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* The labels of the resolver's pods as LABEL=VALUE,LABEL=VALUE. */}}
{{- define "cuddy.dnsLabels" -}}
{{- $pairs := list }}
{{- range $key, $value := .Values.dns.labels }}{{ $pairs = append $pairs (printf "%s=%s" $key $value) }}{{ end }}
{{- join "," $pairs }}
{{- end }}
