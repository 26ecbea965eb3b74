package tests

import (
	"strings"
	"testing"
	"time"
)

func TestPodRuns(t *testing.T) {
	ns := namespace(t)
	pod(t, ns, "one", "")

	if out, err := inPod(ns, "one", "sh", "-c", "echo from $(hostname)"); err != nil || out != "from one" {
		t.Errorf("exec gave %q, %v", out, err)
	}

	apply(t, ns, `
apiVersion: v1
kind: Pod
metadata: { name: talker }
spec:
  restartPolicy: Never
  containers:
    - { name: main, image: "cuddy.test/runtime:dev", args: [-c, "echo said"] }
`)
	mustKubectl(t, "-n", ns, "wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/talker", "--timeout=25s")
	if out := mustKubectl(t, "-n", ns, "logs", "talker"); out != "said" {
		t.Errorf("logs gave %q", out)
	}
}

func TestRestrictedRefusesPrivileged(t *testing.T) {
	ns := namespace(t)
	mustKubectl(t, "label", "namespace", ns, "pod-security.kubernetes.io/enforce=restricted")
	_, err := kubectl("-n", ns, "run", "bad", "--image=cuddy.test/runtime:dev", "--privileged")
	if err == nil || !strings.Contains(err.Error(), "PodSecurity") {
		t.Errorf("a privileged pod gave %v", err)
	}
	pod(t, ns, "good", `
      securityContext:
        allowPrivilegeEscalation: false
        capabilities: { drop: [ALL] }
  securityContext:
    runAsNonRoot: true
    runAsUser: 1000
    seccompProfile: { type: RuntimeDefault }
`)
}

func TestUserNamespace(t *testing.T) {
	ns := namespace(t)
	pod(t, ns, "inner", "  hostUsers: false\n")
	out, err := inPod(ns, "inner", "cat", "/proc/self/uid_map")
	if err != nil || strings.HasPrefix(strings.Join(strings.Fields(out), " "), "0 0 ") {
		t.Errorf("uid map is %q, %v", out, err)
	}
}

func TestWorkspaceBelongsToGroup(t *testing.T) {
	ns := namespace(t)
	apply(t, ns, `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: { name: work }
spec:
  accessModes: [ReadWriteOnce]
  resources: { requests: { storage: 1Gi } }
`)
	pod(t, ns, "writer", `
      securityContext: { allowPrivilegeEscalation: false }
      volumeMounts: [{ name: work, mountPath: /work }]
  securityContext: { runAsUser: 1000, runAsGroup: 1000, fsGroup: 2000, fsGroupChangePolicy: OnRootMismatch }
  volumes: [{ name: work, persistentVolumeClaim: { claimName: work } }]
`)
	out, err := inPod(ns, "writer", "sh", "-c", "echo kept > /work/file && stat -c '%u %g' /work /work/file && stat -c %a /work")
	if err != nil || strings.Fields(out)[1] != "2000" || !strings.Contains(out, "1000 2000") {
		t.Errorf("owners are %q, %v", out, err)
	}

	// The next pod finds what the first one wrote.
	mustKubectl(t, "-n", ns, "delete", "pod", "writer")
	pod(t, ns, "reader", `
      volumeMounts: [{ name: work, mountPath: /work }]
  volumes: [{ name: work, persistentVolumeClaim: { claimName: work } }]
`)
	if out, err := inPod(ns, "reader", "cat", "/work/file"); err != nil || out != "kept" {
		t.Errorf("the file reads %q, %v", out, err)
	}

	volume := mustKubectl(t, "-n", ns, "get", "pvc", "work", "-o", "jsonpath={.spec.volumeName}")
	mustKubectl(t, "-n", ns, "delete", "pod", "reader")
	mustKubectl(t, "-n", ns, "delete", "pvc", "work")
	eventually(t, 30*time.Second, func() error {
		_, err := kubectl("wait", "--for=delete", "pv/"+volume, "--timeout=5s")
		return err
	})
}
