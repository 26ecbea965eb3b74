# shellcheck shell=bash
# The NetworkPolicy enforcer, and nothing else of kube-router. It is switched
# off and on by tests that need a cluster which does not enforce.

# It gives up when its node is not there yet or has no range of addresses.
before() { await 90 has_pod_cidr; }

has_pod_cidr() { get "$API/api/v1/nodes/$NODE" | grep -q '"podCIDR"'; }

start() {
	local six=()
	[[ $DUAL ]] && six=(--enable-ipv6=true --service-cluster-ip-range "$SERVICE_CIDR6")
	export NODE_NAME=$NODE
	exec kube-router --kubeconfig "$PKI/kube-router.kubeconfig" \
		--run-router=false --run-service-proxy=false --run-firewall=true \
		--hostname-override "$NODE" --health-port 20244 \
		--service-cluster-ip-range "$SERVICE_CIDR4" "${six[@]}"
}

healthy() { get http://127.0.0.1:20244/healthz; }

# It leaves its rules behind when it ends, and they would go on deciding. The
# tables filter and mangle are kube-router's alone here: kube-proxy uses
# nftables, the port mapper uses nat, the kubelet makes no chains.
after() {
	local tool table set
	for tool in iptables ip6tables; do
		for table in filter mangle; do
			$tool -w 5 -t $table -F 2>/dev/null || continue
			$tool -w 5 -t $table -X
		done
	done
	for set in $(ipset list -name 2>/dev/null); do ipset destroy "$set" || true; done
}
