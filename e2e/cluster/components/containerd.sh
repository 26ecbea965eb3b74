# shellcheck shell=bash
# The container runtime. Its images outlive the node (they take seconds to
# import); everything that runs does not.
SOCKET=/run/containerd/containerd.sock

before() {
	render "$ROOM/conf/containerd.toml" >"$CONF/containerd.toml"
	mkdir -p "$CONF/cni"
	if [[ $DUAL ]]; then
		render "$ROOM/conf/cni-dual.conflist" >"$CONF/cni/10-cuddy.conflist"
	else
		render "$ROOM/conf/cni.conflist" >"$CONF/cni/10-cuddy.conflist"
	fi
}

start() { exec containerd --config "$CONF/containerd.toml"; }

healthy() { timeout 3 ctr -a $SOCKET version; }

# The shims outlive containerd, and so they should: pods run on while it is
# away.
