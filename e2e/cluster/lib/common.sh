# shellcheck shell=bash disable=SC2034
# Sourced by every verb, which use its variables: where things are, and how to
# say that something failed.
set -euo pipefail

# The room (this folder) and the repository it belongs to.
ROOM=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
REPO=$(cd "$ROOM/../.." && pwd)

# Everything built or written lives below one folder, so that removing the
# cluster is removing the folder and two checkouts never share one.
DIR=${CUDDY_CLUSTER_DIR:-$REPO/target/cluster}
mkdir -p "$DIR"
DIR=$(cd "$DIR" && pwd)
BIN=$DIR/bin IMAGES=$DIR/images STATE=$DIR/state PKI=$DIR/pki RUN=$DIR/run LOG=$DIR/log CONF=$DIR/conf
mkdir -p "$BIN" "$IMAGES" "$STATE" "$PKI" "$RUN" "$LOG" "$CONF"

# The cgroup is the one thing of the cluster that the host can see; its name
# tells two checkouts on one machine apart.
CGROUP=cuddy-$(cksum <<<"$DIR" | cut -d' ' -f1)
NODE=cuddy

# Addresses. The node's own is the bridge's: the kubelet refuses loopback.
# The IPv6 ranges are unique local ones, and no packet leaves the namespace.
NODE_IP4=10.244.0.1 POD_CIDR4=10.244.0.0/24 SERVICE_CIDR4=10.96.0.0/16 API_IP4=10.96.0.1 DNS_IP4=10.96.0.10
NODE_IP6=fd00:10:244::1 POD_CIDR6=fd00:10:244::/64 SERVICE_CIDR6=fd00:10:96::/112
BRIDGE=cni0
API=https://$NODE_IP4:6443

# A machine without IPv6 gets a cluster with one stack instead of none.
if [[ -e /proc/net/if_inet6 ]]; then DUAL=1; else DUAL=; fi
both() { if [[ $DUAL ]]; then echo "$1,$2"; else echo "$1"; fi; }

# The age of the machine's cgroups is known; ctr need not say it at each call.
export CONTAINERD_SUPPRESS_DEPRECATION_WARNINGS=1
export KUBECONFIG=$DIR/kubeconfig
PATH=$BIN:$PATH:/usr/sbin:/sbin

say() { echo "cluster: $*" >&2; }
die() { say "$*"; exit 1; }

need_root() {
	[[ $(id -u) = 0 ]] || die "namespaces and cgroups need root; start this as root"
}

# await SECONDS COMMAND... polls until the command succeeds or the time is up.
await() {
	local until=$((SECONDS + $1))
	shift
	until "$@" >/dev/null 2>&1; do
		((SECONDS < until)) || return 1
		# Each poll costs a program or two, on the machine that it waits for.
		sleep 0.2
	done
}

# start_time PID, which together with the pid names one process for good; nothing
# for one that has ended and was not waited for. The fields are counted from
# behind the name, which may hold blanks.
start_time() {
	local stat
	stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
	stat=${stat##*) }
	[[ $stat != Z* ]] && cut -d' ' -f20 <<<"$stat"
}

# The cgroup of the daemons. It keeps nothing from them: it is there to find them
# when nothing else tells which processes are ours. The kubelet's pods are beside
# it, since a cgroup of version 2 holds either processes or groups.
processes() {
	if [[ $(stat -fc %T /sys/fs/cgroup) = cgroup2fs ]]; then
		echo "/sys/fs/cgroup/$CGROUP/node"
	else
		echo "/sys/fs/cgroup/pids/$CGROUP/node"
	fi
}
