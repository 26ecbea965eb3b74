# shellcheck shell=bash
# Starting and stopping one component. Each file in components/ defines
#   start    ends in exec of the program, inside the node
#   healthy  succeeds when the component serves
# and optionally
#   before   runs inside the node just before start (waits, configuration)
#   after    runs inside the node after the program was killed
# This file is sourced inside the node, where pids are the node's own.

ALL_COMPONENTS=(etcd containerd kube-apiserver kubelet kube-controller-manager kube-scheduler kube-proxy local-provisioner kube-router)

component_load() {
	before() { :; }
	after() { :; }
	[[ -r $ROOM/components/$1.sh ]] || die "there is no component $1; known: ${ALL_COMPONENTS[*]}"
	# shellcheck source=/dev/null
	source "$ROOM/components/$1.sh"
}

# The pid in the node, if that process is alive.
component_pid() {
	local pid start
	read -r pid start 2>/dev/null <"$RUN/$1.pid" || return 1
	[[ $start = "$(start_time "$pid")" ]] && echo "$pid"
}

component_healthy() (
	component_pid "$1" >/dev/null || exit 1
	component_load "$1"
	healthy >/dev/null 2>&1
)

component_start() {
	component_pid "$1" >/dev/null && return
	component_keep_log "$1"
	# In a session of its own: what ends a terminal or a test's process group must
	# not end the cluster.
	setsid bash "$ROOM/lib/on-node" exec "$1" </dev/null >>"$LOG/$1.log" 2>&1 9>&- &
	# Written here and not by the program, so that it is not started twice.
	echo "$! $(start_time $!)" >"$RUN/$1.pid"
	disown
}

# Becomes the program.
component_exec() {
	# Entering namespaces does not enter the cgroup. 0 is whoever writes.
	echo 0 >"$(processes)/cgroup.procs"
	component_load "$1"
	before
	start
}

# Some programs give up when another is late, and in production something starts
# them again.
component_await() {
	local until=$((SECONDS + 60))
	until component_healthy "$1"; do
		((SECONDS < until)) || return 1
		component_start "$1"
		sleep 0.2
	done
}

component_stop() {
	local pid
	if pid=$(component_pid "$1"); then
		kill -KILL "$pid" 2>/dev/null || true
		await 10 eval "! kill -0 $pid" || die "$1 does not end"
	fi
	rm -f "$RUN/$1.pid"
	(
		component_load "$1"
		after
	)
}

# One old log is kept: what happened before a restart is the question then.
component_keep_log() {
	if [[ -s $LOG/$1.log ]]; then mv -f "$LOG/$1.log" "$LOG/$1.log.old"; fi
}

# get URL succeeds when a health page answers; with a certificate of ours where
# the page asks for one.
get() {
	curl -fsS --max-time 2 --cacert "$PKI/ca.crt" --cert "$PKI/admin.crt" --key "$PKI/admin.key" "$1"
}

# The controller manager and the scheduler serve with certificates that they
# make themselves at each start.
get_insecure() { curl -fsSk --max-time 2 "$1"; }

# Fills ${NAME} in a configuration file from the variables of this room; any
# other dollar is left alone.
render() {
	sed -e "s|\${BIN}|$BIN|g" -e "s|\${PKI}|$PKI|g" -e "s|\${CONF}|$CONF|g" -e "s|\${LOG}|$LOG|g" \
		-e "s|\${CGROUP}|$CGROUP|g" -e "s|\${BRIDGE}|$BRIDGE|g" -e "s|\${DNS_IP4}|$DNS_IP4|g" \
		-e "s|\${POD_CIDR4}|$POD_CIDR4|g" -e "s|\${POD_CIDR6}|$POD_CIDR6|g" \
		-e "s|\${POD_CIDRS}|$(both "$POD_CIDR4" "$POD_CIDR6")|g" "$1"
}
