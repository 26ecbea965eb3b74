package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// A subject of the authority: file name, and who the API server takes it for.
type subject struct {
	name, user, group string
	// Whether programs verify it as a server by the cluster's addresses.
	server bool
	// Whether it gets a kubeconfig.
	client bool
}

const masters = "system:masters"

var subjects = []subject{
	{name: "admin", user: "cuddy:admin", group: masters, client: true},
	{name: "kube-apiserver", user: "kube-apiserver", server: true},
	{name: "kubelet-client", user: "kube-apiserver-kubelet-client", group: masters},
	{name: "kube-controller-manager", user: "system:kube-controller-manager", client: true},
	{name: "kube-scheduler", user: "system:kube-scheduler", client: true},
	{name: "kube-proxy", user: "system:kube-proxy", client: true},
	// One certificate for both of the kubelet's directions, its own API and the
	// API server, saves it the bootstrap.
	{name: "kubelet", user: "system:node:cuddy", group: "system:nodes", server: true, client: true},
	// Programs of the test cluster alone, for which roles would prove nothing.
	{name: "local-provisioner", user: "cuddy:local-provisioner", group: masters, client: true},
	{name: "kube-router", user: "cuddy:kube-router", group: masters, client: true},
}

// pki DIR HOST... ; the first host is the API server's address in kubeconfigs.
func pki(args []string) error {
	if len(args) < 2 {
		return errors.New("a directory and the node's address are wanted")
	}
	dir, hosts := args[0], args[1:]
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	ca, err := newAuthority(dir)
	if err != nil {
		return err
	}
	for _, s := range subjects {
		cert, key, err := ca.issue(s, hosts)
		if err != nil {
			return fmt.Errorf("issue %s: %w", s.name, err)
		}
		if err := writePair(dir, s.name, cert, key); err != nil {
			return err
		}
		if s.client {
			config := kubeconfig("https://"+hosts[0]+":6443", s.name, ca.pem, cert, key)
			if err := write(dir, s.name+".kubeconfig", config); err != nil {
				return err
			}
		}
	}
	return serviceAccountKey(dir)
}

type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(dir string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := certificate("cuddy-test-authority", "")
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return nil, err
	}
	ca := &authority{cert, key, encode("CERTIFICATE", der)}
	return ca, writePair(dir, "ca", ca.pem, keyPEM)
}

func (ca *authority) issue(s subject, hosts []string) (cert, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := certificate(s.user, s.group)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if s.server {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
		for _, host := range hosts {
			if ip := net.ParseIP(host); ip != nil {
				template.IPAddresses = append(template.IPAddresses, ip)
			} else {
				template.DNSNames = append(template.DNSNames, host)
			}
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, private.Public(), ca.key)
	if err != nil {
		return nil, nil, err
	}
	key, err = encodeKey(private)
	return encode("CERTIFICATE", der), key, err
}

func certificate(user, group string) *x509.Certificate {
	// A serial by the clock is unique enough for one authority on one machine;
	// ten years outlive every checkout.
	now := time.Now()
	name := pkix.Name{CommonName: user}
	if group != "" {
		name.Organization = []string{group}
	}
	return &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()),
		Subject:      name,
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.AddDate(10, 0, 0),
	}
}

func serviceAccountKey(dir string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	private, err := encodeKey(key)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	return errors.Join(
		write(dir, "service-account.key", private),
		write(dir, "service-account.pub", encode("PUBLIC KEY", public)),
	)
}

func writePair(dir, name string, cert, key []byte) error {
	return errors.Join(write(dir, name+".crt", cert), write(dir, name+".key", key))
}

func write(dir, name string, data []byte) error {
	return os.WriteFile(filepath.Join(dir, name), data, 0o600)
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return encode("PRIVATE KEY", der), nil
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
