# shellcheck shell=bash
# The node: one process tree in namespaces of its own. Its first process (the
# init) holds all of them; ending it ends every daemon, pod, mount and address.
# There is no named network namespace: a name would be a mount on the host
# that outlives a crash.

# The init's pid on the host, if its namespaces can be entered. One that was
# killed loses them at once, and stays a process until all others are gone.
node_pid() {
	local pid
	pid=$(node_recorded) && [[ -e /proc/$pid/ns/net ]] && echo "$pid"
}

# The init's pid if that process, dying or not, is still there: a pid alone may
# have been given to somebody else since.
node_recorded() {
	local pid start
	read -r pid start 2>/dev/null <"$RUN/init" || return 1
	[[ $start = "$(start_time "$pid")" ]] && echo "$pid"
}

# in_net and in_node replace the calling process. Tests and kubectl need the
# network alone; what touches mounts or pids enters all.
in_net() {
	local pid
	pid=$(node_pid) || die "the cluster is not up; run $ROOM/up"
	exec nsenter --net="/proc/$pid/ns/net" -- "$@"
}

in_node() {
	local pid
	pid=$(node_pid) || die "the cluster is not up; run $ROOM/up"
	exec nsenter -t "$pid" -n -m -p "--wd=$PWD" -- "$@"
}

# Starts the init and waits until it has made the namespaces ready.
node_start() {
	local parent pid
	cgroups_make
	rm -f "$RUN/init" "$RUN/ready" "$RUN"/*.pid
	(
		echo "$BASHPID" >"$(processes)/cgroup.procs"
		exec setsid unshare --net --mount --pid --fork --mount-proc --kill-child=SIGKILL \
			bash "$ROOM/lib/init"
	) </dev/null >"$LOG/init.log" 2>&1 9>&- &
	parent=$!
	await 20 test -e "$RUN/ready" || {
		tail -n 20 "$LOG/init.log" >&2
		die "the init did not become ready; its log is $LOG/init.log"
	}
	# Not before: until it has become unshare, the child has children of its own.
	pid=$(child_of "$parent") || die "the init ended; its log is $LOG/init.log"
	echo "$pid $(start_time "$pid")" >"$RUN/init"
}

child_of() {
	local child
	# The list has no newline at its end, which read calls a failure.
	read -r child _ <"/proc/$1/task/$1/children" || [[ $child ]] || return 1
	echo "$child"
}

# Ends the node whatever state it is in and leaves nothing on the host.
node_stop() {
	local pid
	if pid=$(node_recorded); then
		kill -KILL "$pid" 2>/dev/null || true
		# The kernel ends the init only when the last process of its pid
		# namespace is gone.
		await 20 node_gone || die "process $pid does not end"
	fi
	rm -f "$RUN/init" "$RUN/ready" "$RUN/up" "$RUN"/*.pid
	# One that was started by an `up` which was killed before it wrote a pid.
	await 20 strays_gone || say "processes in $(processes) do not end"
	await 10 cgroups_remove || say "a cgroup named $CGROUP could not be removed"
}

node_gone() { ! node_recorded >/dev/null; }

strays_gone() {
	local pids
	pids=$(find "$(dirname "$(processes)")" -name cgroup.procs -exec cat {} + 2>/dev/null)
	[[ $pids ]] || return 0
	# shellcheck disable=SC2086
	kill -KILL $pids 2>/dev/null
	return 1
}

cgroup_roots() {
	if [[ $(stat -fc %T /sys/fs/cgroup) = cgroup2fs ]]; then
		echo /sys/fs/cgroup
	else
		local root
		for root in /sys/fs/cgroup/*/; do
			[[ -e $root/cgroup.procs ]] && echo "${root%/}"
		done
	fi
}

# The kubelet wants its root cgroup to exist in every controller.
cgroups_make() {
	local root
	if [[ $(stat -fc %T /sys/fs/cgroup) = cgroup2fs ]]; then
		# Without these the kubelet reports the controllers as missing. They
		# are on wherever systemd runs.
		for root in cpu cpuset memory pids io hugetlb; do
			echo "+$root" >/sys/fs/cgroup/cgroup.subtree_control 2>/dev/null || true
		done
		mkdir -p "$(processes)"
		return
	fi
	for root in $(cgroup_roots); do
		mkdir -p "$root/$CGROUP"
		[[ -e $root/cpuset.cpus ]] || continue
		# A new cpuset has no processor and no memory: nothing can enter it.
		cat "$root/cpuset.cpus" >"$root/$CGROUP/cpuset.cpus"
		cat "$root/cpuset.mems" >"$root/$CGROUP/cpuset.mems"
	done
	mkdir -p "$(processes)"
}

cgroups_remove() {
	local root left=0
	for root in $(cgroup_roots); do
		[[ -d $root/$CGROUP ]] || continue
		find "$root/$CGROUP" -depth -type d -exec rmdir {} + 2>/dev/null || left=1
	done
	return $left
}
