package main

import (
	"encoding/base64"
	"fmt"
)

// kubeconfig carries its certificates inside, so that it can be copied alone.
func kubeconfig(server, name string, ca, cert, key []byte) []byte {
	b64 := base64.StdEncoding.EncodeToString
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: cuddy-test
contexts:
  - name: cuddy-test
    context: { cluster: cuddy-test, user: %[2]s }
clusters:
  - name: cuddy-test
    cluster:
      server: %[1]s
      certificate-authority-data: %[3]s
users:
  - name: %[2]s
    user:
      client-certificate-data: %[4]s
      client-key-data: %[5]s
`, server, name, b64(ca), b64(cert), b64(key))
}
