package tests

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// initPID is the node's first process, as the host numbers it.
func initPID(t *testing.T) int {
	t.Helper()
	record, err := os.ReadFile(filepath.Join(os.Getenv("CUDDY_CLUSTER_DIR"), "run", "init"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.Fields(string(record))[0])
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// cgroups of this cluster, in whatever hierarchy.
func cgroups(t *testing.T) []string {
	t.Helper()
	sum := exec.Command("bash", "-c", `cksum <<<"$CUDDY_CLUSTER_DIR" | cut -d' ' -f1`)
	number, err := sum.Output()
	if err != nil {
		t.Fatal(err)
	}
	name := "cuddy-" + strings.TrimSpace(string(number))
	var found []string
	for _, pattern := range []string{"/sys/fs/cgroup/", "/sys/fs/cgroup/*/"} {
		matches, err := filepath.Glob(pattern + name)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, matches...)
	}
	return found
}

// processesOfNode is every process in the init's cgroup and in the pods'.
func processesOfNode(t *testing.T) []string {
	t.Helper()
	var pids []string
	for _, group := range cgroups(t) {
		if filepath.Base(filepath.Dir(group)) != "pids" && filepath.Dir(group) != "/sys/fs/cgroup" {
			continue
		}
		err := filepath.WalkDir(group, func(path string, entry os.DirEntry, err error) error {
			if err != nil || entry.Name() != "cgroup.procs" {
				return err
			}
			data, err := os.ReadFile(path)
			pids = append(pids, strings.Fields(string(data))...)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return pids
}

// hostState is what the cluster could change on the host: mounts that name it,
// interfaces, routes, rules, and the sysctls that a kubelet likes to set.
func hostState(t *testing.T) string {
	t.Helper()
	var state strings.Builder
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, os.Getenv("CUDDY_CLUSTER_DIR")) {
			state.WriteString(line)
		}
	}
	for _, args := range [][]string{
		{"ip", "-o", "-br", "link"},
		{"ip", "route", "show", "table", "all"},
		{"nft", "list", "ruleset"},
		{"ipset", "list", "-name"},
		{"sysctl", "vm.overcommit_memory", "vm.panic_on_oom", "kernel.panic", "kernel.panic_on_oops",
			"kernel.keys.root_maxkeys", "kernel.keys.root_maxbytes", "net.ipv4.ip_forward"},
	} {
		out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
		fmt.Fprintf(&state, "%v\n%s", args, out)
	}
	return state.String()
}

// processState is empty for a process that has ended. Whether the host's first
// process has waited for it is the host's affair.
func processState(pid string) string {
	data, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	if err != nil {
		return ""
	}
	stat := string(data)
	state := strings.Fields(stat[strings.LastIndex(stat, ")")+1:])[0]
	if state == "Z" || state == "X" {
		return ""
	}
	return state
}
