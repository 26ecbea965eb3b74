package tests

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// A server that answers with its own name, and a Service before it.
const server = `
apiVersion: v1
kind: Pod
metadata: { name: server, labels: { app: server } }
spec:
  terminationGracePeriodSeconds: 0
  containers:
    - { name: main, image: "cuddy.test/kit:dev", args: [serve, "8080", hello], imagePullPolicy: IfNotPresent }
---
apiVersion: v1
kind: Service
metadata: { name: server }
spec:
  ipFamilyPolicy: PreferDualStack
  selector: { app: server }
  ports: [{ port: 80, targetPort: 8080 }]
`

const policy = `
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: { name: only-friends }
spec:
  podSelector: { matchLabels: { app: server } }
  policyTypes: [Ingress]
  ingress:
    - from: [{ podSelector: { matchLabels: { app: friend } } }]
`

func withServer(t *testing.T) (ns string) {
	t.Helper()
	ns = namespace(t)
	apply(t, ns, server)
	mustKubectl(t, "-n", ns, "wait", "--for=condition=Ready", "pod/server", "--timeout=25s")
	return ns
}

// answers says whether a dial from the pod reads the server's answer.
func answers(ns, from, host string, port int) error {
	out, err := inPod(ns, from, "timeout", "3", "nc", "-w", "2", host, fmt.Sprint(port))
	if err != nil {
		return err
	}
	if out != "hello" {
		return fmt.Errorf("the answer is %q", out)
	}
	return nil
}

func refused(ns, from, host string, port int) error {
	if answers(ns, from, host, port) == nil {
		return errors.New("it answers")
	}
	return nil
}

// addresses of an object, all families.
func addresses(t *testing.T, ns, object, path string) []string {
	t.Helper()
	return strings.Fields(mustKubectl(t, "-n", ns, "get", object, "-o", "jsonpath={"+path+"}"))
}

func TestServiceAndNames(t *testing.T) {
	ns := withServer(t)
	pod(t, ns, "client", "")
	clusterIPs := addresses(t, ns, "service/server", ".spec.clusterIPs[*]")
	if len(clusterIPs) != 2 {
		t.Errorf("the Service has addresses %v, want two families", clusterIPs)
	}
	for _, host := range append(clusterIPs, "server."+ns+".svc.cluster.local", "server") {
		eventually(t, 10*time.Second, func() error { return answers(ns, "client", host, 80) })
		// The same from the node, where the API server and tests are.
		if strings.Contains(host, "server") {
			continue
		}
		target := host
		if strings.Contains(host, ":") {
			target = "[" + host + "]"
		}
		eventually(t, 10*time.Second, func() error {
			_, err := command("", 10*time.Second, "run", "kit", "dial", target+":80")
			return err
		})
	}
	for kind, want := range map[string]string{"A": clusterIPs[0], "AAAA": clusterIPs[1]} {
		got, err := command("", 10*time.Second, "run", "kit", "dns", "-server", "10.96.0.10:53", "-type", kind, "server."+ns+".svc.cluster.local")
		if err != nil || got != want {
			t.Errorf("%s of the Service is %q, %v; want %s", kind, got, err, want)
		}
	}
	// A pod reaches itself through its Service: the bridge must turn it round.
	// By its full name: the short one is its own host name too.
	if out, err := inPod(ns, "server", "/kit", "dial", "server."+ns+".svc.cluster.local:80"); err != nil || out != "hello" {
		t.Errorf("the server gets %q from itself, %v", out, err)
	}
	if _, err := inPod(ns, "client", "getent", "hosts", "nobody.example"); err == nil {
		t.Error("a name of the outside resolves")
	}
}

func TestPolicyIsEnforced(t *testing.T) {
	ns := withServer(t)
	pod(t, ns, "friend", "")
	pod(t, ns, "stranger", "")
	podIPs := addresses(t, ns, "pod/server", ".status.podIPs[*].ip")
	if len(podIPs) != 2 {
		t.Errorf("the pod has addresses %v, want two families", podIPs)
	}
	// A wall that was never seen open proves nothing.
	for _, ip := range podIPs {
		eventually(t, 10*time.Second, func() error { return answers(ns, "stranger", ip, 8080) })
	}

	apply(t, ns, policy)
	for _, ip := range podIPs {
		eventually(t, 15*time.Second, func() error { return refused(ns, "stranger", ip, 8080) })
		eventually(t, 15*time.Second, func() error { return answers(ns, "friend", ip, 8080) })
	}

	mustRun(t, "enforcer", "stop")
	for _, ip := range podIPs {
		eventually(t, 10*time.Second, func() error { return answers(ns, "stranger", ip, 8080) })
	}

	mustRun(t, "enforcer", "start")
	for _, ip := range podIPs {
		eventually(t, 30*time.Second, func() error { return refused(ns, "stranger", ip, 8080) })
		eventually(t, 15*time.Second, func() error { return answers(ns, "friend", ip, 8080) })
	}

	mustKubectl(t, "-n", ns, "delete", "networkpolicy", "only-friends")
	for _, ip := range podIPs {
		eventually(t, 15*time.Second, func() error { return answers(ns, "stranger", ip, 8080) })
	}
}

const egress = `
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: { name: out }
spec:
  podSelector: { matchLabels: { app: client } }
  policyTypes: [Ingress, Egress]
  egress:
    - to: [{ podSelector: { matchLabels: { app: server } } }]
      ports: [{ port: 8080 }]
    - to:
        - namespaceSelector: { matchLabels: { kubernetes.io/metadata.name: kube-system } }
          podSelector: { matchLabels: { k8s-app: kube-dns } }
      ports: [{ port: 53, protocol: UDP }, { port: 53, protocol: TCP }]
`

func TestEgressIsEnforced(t *testing.T) {
	ns := withServer(t)
	pod(t, ns, "client", "")
	reachesAPI := func() error {
		_, err := inPod(ns, "client", "nc", "-z", "-w", "2", "10.96.0.1", "443")
		return err
	}
	eventually(t, 10*time.Second, reachesAPI)

	apply(t, ns, egress)
	eventually(t, 15*time.Second, func() error {
		if reachesAPI() == nil {
			return errors.New("the API server answers")
		}
		return nil
	})
	// What it names stays open, in both families and by name.
	hosts := append(addresses(t, ns, "pod/server", ".status.podIPs[*].ip"), "server."+ns+".svc.cluster.local")
	for _, host := range hosts {
		port := 8080
		if strings.HasPrefix(host, "server.") {
			port = 80
		}
		eventually(t, 10*time.Second, func() error { return answers(ns, "client", host, port) })
	}
}
