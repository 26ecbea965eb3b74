package tests

import (
	"syscall"
	"testing"
	"time"
)

// Each of these leaves a healthy cluster behind, so their order does not matter.

func TestUpIsIdempotent(t *testing.T) {
	began := time.Now()
	mustRun(t, "up")
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("up of a healthy cluster took %s", took)
	}
}

func TestUpHealsPrograms(t *testing.T) {
	ns := namespace(t)
	pod(t, ns, "survivor", "")
	for _, name := range []string{"etcd", "kube-apiserver", "kubelet", "containerd"} {
		mustRun(t, "component", "stop", name)
	}
	mustRun(t, "up")
	if out, err := inPod(ns, "survivor", "echo", "alive"); err != nil || out != "alive" {
		t.Errorf("exec gave %q, %v", out, err)
	}
	if restarts := mustKubectl(t, "-n", ns, "get", "pod", "survivor", "-o", "jsonpath={.status.containerStatuses[0].restartCount}"); restarts != "0" {
		t.Errorf("the pod was restarted %s times", restarts)
	}
}

func TestUpHealsKilledNode(t *testing.T) {
	ns := namespace(t)
	pod(t, ns, "returner", "")
	// From the host, as an out-of-memory killer would.
	if err := syscall.Kill(initPID(t), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	mustRun(t, "up")
	eventually(t, time.Minute, func() error {
		_, err := inPod(ns, "returner", "true")
		return err
	})
}

func TestDownLeavesNothing(t *testing.T) {
	before := hostState(t)
	t.Cleanup(func() { mustRun(t, "up") })
	inside := processesOfNode(t)
	if len(inside) < 10 {
		t.Fatalf("only %d processes are found on the node", len(inside))
	}
	mustRun(t, "down")

	for _, pid := range inside {
		if state := processState(pid); state != "" {
			t.Errorf("process %s is left in state %s", pid, state)
		}
	}
	if groups := cgroups(t); len(groups) != 0 {
		t.Errorf("cgroups are left: %v", groups)
	}
	// Neither the cluster's life nor its end may show on the host.
	if after := hostState(t); after != before {
		t.Errorf("the host was\n%s\nand is\n%s", before, after)
	}
}
