# shellcheck shell=bash
before() { await 60 get "$API/readyz"; }

start() {
	exec kube-scheduler --kubeconfig "$PKI/kube-scheduler.kubeconfig" \
		--leader-elect=false --bind-address 127.0.0.1 --profiling=false
}

healthy() { get_insecure https://127.0.0.1:10259/healthz; }
