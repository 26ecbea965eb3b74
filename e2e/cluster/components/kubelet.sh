# shellcheck shell=bash
before() {
	render "$ROOM/conf/kubelet.yaml" >"$CONF/kubelet.yaml"
	await 60 test -S /run/containerd/containerd.sock
}

start() {
	# The kubelet sets sysctls of the whole machine. It finds them as it wants
	# them in files bound over the real ones, in a mount namespace that only the
	# kubelet sees: over the node's own /proc they would keep pods with user
	# namespaces from mounting theirs.
	exec unshare --mount --propagation unchanged "$ROOM/lib/kubelet" \
		--config "$CONF/kubelet.yaml" --kubeconfig "$PKI/kubelet.kubeconfig" \
		--hostname-override "$NODE" --node-ip "$(both "$NODE_IP4" "$NODE_IP6")" \
		--cert-dir "$PKI" --root-dir /var/lib/kubelet
}

healthy() { get http://127.0.0.1:10248/healthz; }
