{{- define "stoa.name" -}}
{{ printf "%s" .Release.Name | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "stoa.labels" -}}
app.kubernetes.io/name: stoa
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* The pod of the service and of the migration: the same image, user and restrictions. The caller
passes a dict of root, args, env, volumes and more members of the container. */ -}}
{{- define "stoa.pod" -}}
{{- $ := .root -}}
automountServiceAccountToken: false
terminationGracePeriodSeconds: 45 # longer than the setting drain
{{- with $.Values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
containers:
  - name: stoa
    image: "{{ $.Values.image.repository }}:{{ $.Values.image.tag | default $.Chart.AppVersion }}"
    imagePullPolicy: {{ $.Values.image.pullPolicy }}
    args: {{ toJson .args }}
    securityContext:
      allowPrivilegeEscalation: false
      readOnlyRootFilesystem: true
      capabilities: {drop: [ALL]}
    env:
      - {name: STOA_ADMIN_LISTEN, value: "0.0.0.0:9090"}
      {{- if $.Values.database.existingSecret }}
      - name: STOA_DATABASE
        valueFrom: {secretKeyRef: {name: {{ $.Values.database.existingSecret | quote }}, key: {{ $.Values.database.key | quote }}}}
      {{- end }}
      {{- with .env }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
    envFrom:
      - secretRef: {name: {{ required "existingSecret is required: a Secret with SECRETS_KEY" $.Values.existingSecret | quote }}}
    resources: {{ toYaml $.Values.resources | nindent 6 }}
    volumeMounts:
      - {name: tmp, mountPath: /tmp}
      - {name: data, mountPath: /data}
      {{- with .mounts }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
    {{- with .container }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
volumes:
  - {name: tmp, emptyDir: {}}
  {{- with .volumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with $.Values.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with $.Values.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with $.Values.affinity }}
affinity: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end }}
