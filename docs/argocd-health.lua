-- Argo CD: resource.customizations.health.cuddy.dev_Environment in the ConfigMap argocd-cm.
local status, ready = obj.status or {}, nil
for _, c in ipairs(status.conditions or {}) do if c.type == "Ready" then ready = c end end
if ready == nil or (status.observedGeneration or 0) < (obj.metadata.generation or 0) then
  return { status = "Progressing", message = "Waiting for the operator" }
end
local words = { Stopped = "Suspended", Starting = "Progressing", Verifying = "Progressing", Pushing = "Progressing",
  Pending = "Progressing", Waking = "Progressing", WaitingForTermination = "Progressing" }
local health = ready.status == "True" and "Healthy" or words[ready.reason] or "Degraded"
return { status = health, message = ready.reason .. ": " .. (ready.message or "") }
