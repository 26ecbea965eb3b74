// Package tests proves that the cluster is one: what Cuddy's own tests rest on is
// seen to work here first. It runs against a cluster of its own, so that it may
// kill it, with the binaries and images of the shared one.
package tests

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// room is the folder of the scripts.
var room = func() string {
	dir, err := filepath.Abs("..")
	if err != nil {
		panic(err)
	}
	return dir
}()

// command runs one of the room's verbs; the deadline holds for whatever hangs.
func command(stdin string, within time.Duration, verb string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(room, verb), args...)
	cmd.Stdin = strings.NewReader(stdin)
	// A child that keeps the pipe open must not hold the test up.
	cmd.WaitDelay = 2 * time.Second
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s %s: %w\n%s%s", verb, strings.Join(args, " "), err, out.String(), errOut.String())
	}
	return strings.TrimSpace(out.String()), nil
}

func mustRun(t *testing.T, verb string, args ...string) string {
	t.Helper()
	out, err := command("", 3*time.Minute, verb, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func kubectl(args ...string) (string, error) {
	return command("", 30*time.Second, "run", append([]string{"kubectl"}, args...)...)
}

func mustKubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := kubectl(args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func apply(t *testing.T, namespace, manifest string) {
	t.Helper()
	if _, err := command(manifest, 30*time.Second, "run", "kubectl", "-n", namespace, "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
}

// eventually polls a condition; its last error says what was still missing.
func eventually(t *testing.T, within time.Duration, condition func() error) {
	t.Helper()
	until := time.Now().Add(within)
	for {
		err := condition()
		if err == nil {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("not within %s: %v", within, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// namespace makes one for the test alone; a failure says what was in it.
func namespace(t *testing.T) string {
	t.Helper()
	name := fmt.Sprintf("%s-%d", strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-")), os.Getpid())
	mustKubectl(t, "create", "namespace", name)
	// Pods are refused until their service account exists.
	eventually(t, 30*time.Second, func() error {
		_, err := kubectl("-n", name, "get", "serviceaccount", "default")
		return err
	})
	t.Cleanup(func() {
		if t.Failed() {
			dump, _ := kubectl("-n", name, "get", "pods,pvc,networkpolicies,events", "-o", "wide")
			t.Log(dump)
		}
		_, _ = kubectl("delete", "namespace", name, "--wait=false")
	})
	return name
}

// pod starts one of the runtime image that sleeps, with more of a spec if given.
func pod(t *testing.T, namespace, name, more string) {
	t.Helper()
	apply(t, namespace, fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: { name: %s, labels: { app: %s } }
spec:
  terminationGracePeriodSeconds: 0
  containers:
    - name: main
      image: cuddy.test/runtime:dev
      command: [sleep, infinity]
%s`, name, name, more))
	mustKubectl(t, "-n", namespace, "wait", "--for=condition=Ready", "pod/"+name, "--timeout=25s")
}

func inPod(namespace, name string, args ...string) (string, error) {
	return kubectl(append([]string{"-n", namespace, "exec", name, "--"}, args...)...)
}
