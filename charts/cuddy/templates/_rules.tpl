{{- /* What the operator may do where its environments are: the same rules in a ClusterRole or in a Role. */}}
{{- define "cuddy.rules" -}}
- apiGroups: [cuddy.dev]
  resources: [environments]
  verbs: [get, list, watch]
# The status is all that it writes of an Environment.
- apiGroups: [cuddy.dev]
  resources: [environments/status]
  verbs: [get, patch]
# Owner references that block deletion need this where the admission plugin OwnerReferencesPermissionEnforcement is on.
- apiGroups: [cuddy.dev]
  resources: [environments/finalizers]
  verbs: [update]
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, patch, delete]
# Workspaces are deleted by the garbage collector alone.
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [get, list, watch, create, patch]
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, watch, create, patch, delete]
# The anchors that it makes, each read by its name. There is no list and no watch: it sees no Secret whose name it does not
# know. RBAC can neither restrict create by name nor match a pattern (NAME-anchor), so that these verbs are on all names.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, create, patch, delete]
# Public keys that environments trust. It asks for those with the label cuddy.dev/keys; RBAC cannot restrict by label.
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, watch]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end }}
