# shellcheck shell=bash
before() { await 60 get "$API/readyz"; }

start() {
	exec local-provisioner --kubeconfig "$PKI/local-provisioner.kubeconfig" \
		--dir "$STATE/volumes" --node "$NODE"
}

# It serves nothing; component_healthy has seen its process.
healthy() { :; }
