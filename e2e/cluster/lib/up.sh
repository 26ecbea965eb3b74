# shellcheck shell=bash
# The steps of `up`.

on_node() { (in_node bash "$ROOM/lib/on-node" "$@"); }

kc() { (in_net timeout 20 kubectl "$@"); }

# Certificates are made once: a kubeconfig that was copied stays good until
# `down --clean`, or until the names in them change.
certificates() {
	local hosts=("$NODE_IP4" "$API_IP4" 127.0.0.1)
	[[ $DUAL ]] && hosts+=("$NODE_IP6" ::1)
	hosts+=(localhost "$NODE" kubernetes{,.default{,.svc{,.cluster.local}}})
	if [[ $(cat "$PKI/hosts" 2>/dev/null) != "${hosts[*]}" ]]; then
		# Programs that run with the old authority trust nobody with the new.
		node_stop
		kit pki "$PKI" "${hosts[@]}"
		echo "${hosts[*]}" >"$PKI/hosts"
	fi
	cmp -s "$PKI/admin.kubeconfig" "$KUBECONFIG" || cp "$PKI/admin.kubeconfig" "$KUBECONFIG"
}

# Imports those of the built archives that the node does not hold with the same
# digest: load_images NAME..., without names all.
load_images() {
	local present name digest all=("$IMAGES"/*.digest)
	(($#)) || set -- "${all[@]}"
	present=$(in_node ctr -n k8s.io images ls | awk '{ print $1, $3 }')
	for name in "$@"; do
		name=$(basename "$name" .digest)
		digest=$(<"$IMAGES/$name.digest")
		grep -qxF "$digest" <<<"$present" && continue
		say "loading ${digest% *}"
		"$ROOM/load" "$IMAGES/$name.tar" >/dev/null
	done
}

apply_manifests() {
	await 30 kc get namespace kube-system || die "the API server does not answer; see $LOG/kube-apiserver.log"
	kc apply -f "$ROOM/manifests" >/dev/null
}

node_ready() {
	[[ $(kc get node "$NODE" -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}') = True ]]
}

# After a crash the node and the old pods read Ready out of etcd. Only a pod
# that is new, runs, and resolves a name shows that all of it works.
prove() {
	local pod
	pod=proof-$(date +%s%N)
	kc -n kube-system delete pod -l cuddy.test/proof --force --grace-period=0 >/dev/null 2>&1 || true
	await 60 prove_starts "$pod" || die "no pod can be made: $(kc -n kube-system get sa default 2>&1)"
	if ! (in_net timeout 95 kubectl -n kube-system wait "pod/$pod" --for='jsonpath={.status.phase}=Succeeded' --timeout=90s) >/dev/null 2>&1; then
		kc -n kube-system describe pod "$pod" | tail -n 12 >&2
		kc -n kube-system logs "$pod" >&2
		die "a fresh pod does not come to run and resolve names"
	fi
	kc -n kube-system delete pod "$pod" --force --grace-period=0 >/dev/null 2>&1 || true
}

# Fails until the controller manager has made the service account.
prove_starts() { sed "s/\${NAME}/$1/" "$ROOM/conf/proof-pod.yaml" | kc create -f -; }
