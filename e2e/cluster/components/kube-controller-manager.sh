# shellcheck shell=bash
# Leader election is off here and in the scheduler: there is one of each, a
# killed one would wait out its own lease, and lease renewals would be counted
# as writes by benchmarks.
before() { await 60 get "$API/readyz"; }

start() {
	local masks=(--node-cidr-mask-size 24)
	# Masks as wide as the ranges: the one node gets the whole range.
	[[ $DUAL ]] && masks=(--node-cidr-mask-size-ipv4 24 --node-cidr-mask-size-ipv6 64)
	exec kube-controller-manager \
		--kubeconfig "$PKI/kube-controller-manager.kubeconfig" \
		--leader-elect=false --use-service-account-credentials=true \
		--allocate-node-cidrs=true --cluster-cidr "$(both "$POD_CIDR4" "$POD_CIDR6")" "${masks[@]}" \
		--service-cluster-ip-range "$(both "$SERVICE_CIDR4" "$SERVICE_CIDR6")" \
		--service-account-private-key-file "$PKI/service-account.key" --root-ca-file "$PKI/ca.crt" \
		--cluster-signing-cert-file "$PKI/ca.crt" --cluster-signing-key-file "$PKI/ca.key" \
		--bind-address 127.0.0.1 --profiling=false
}

healthy() { get_insecure https://127.0.0.1:10257/healthz; }
