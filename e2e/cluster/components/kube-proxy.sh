# shellcheck shell=bash
before() {
	render "$ROOM/conf/kube-proxy.yaml" >"$CONF/kube-proxy.yaml"
	await 60 get "$API/readyz"
}

start() { exec kube-proxy --config "$CONF/kube-proxy.yaml" --hostname-override "$NODE"; }

healthy() { get http://127.0.0.1:10256/livez; }
