# shellcheck shell=bash
start() {
	local bind=::
	[[ $DUAL ]] || bind=0.0.0.0
	# The audit log counts the writes of a benchmark; two old files of 64 MB
	# bound it. The default endpoint reconciler must stay on, or the Service
	# "kubernetes" has no address.
	exec kube-apiserver \
		--etcd-servers http://127.0.0.1:2379 \
		--bind-address "$bind" --advertise-address "$NODE_IP4" --secure-port 6443 \
		--service-cluster-ip-range "$(both "$SERVICE_CIDR4" "$SERVICE_CIDR6")" \
		--authorization-mode Node,RBAC --enable-admission-plugins NodeRestriction \
		--allow-privileged=true --profiling=false \
		--client-ca-file "$PKI/ca.crt" \
		--tls-cert-file "$PKI/kube-apiserver.crt" --tls-private-key-file "$PKI/kube-apiserver.key" \
		--kubelet-client-certificate "$PKI/kubelet-client.crt" --kubelet-client-key "$PKI/kubelet-client.key" \
		--kubelet-certificate-authority "$PKI/ca.crt" \
		--kubelet-preferred-address-types InternalIP \
		--service-account-issuer https://kubernetes.default.svc.cluster.local \
		--service-account-signing-key-file "$PKI/service-account.key" \
		--service-account-key-file "$PKI/service-account.pub" \
		--audit-policy-file "$ROOM/conf/audit-policy.yaml" \
		--audit-log-path "$LOG/audit.log" --audit-log-maxsize 64 --audit-log-maxbackup 2
}

healthy() { get "$API/readyz"; }
