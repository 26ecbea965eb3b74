// Command kit has the small things that the cluster's scripts and its test pods
// need and that no program of a bare machine does: certificates, image
// archives, and a client and a server to try the network with.
package main

import (
	"fmt"
	"os"
)

type verb struct {
	run   func(args []string) error
	usage string
}

var verbs = map[string]verb{
	"pki":   {pki, "pki DIR HOST... : authority, certificates and kubeconfigs"},
	"image": {image, "image -name NAME -out FILE [flags] SOURCE=TARGET... : an OCI archive"},
	"dns":   {dns, "dns [-server ADDR] [-type A|AAAA] NAME : resolves or fails"},
	"serve": {serve, "serve PORT TEXT : answers each connection with the text"},
	"dial":  {dial, "dial [-within DURATION] ADDR : prints what the address answers"},
}

func main() {
	if len(os.Args) < 2 {
		usage()
	}
	v, ok := verbs[os.Args[1]]
	if !ok {
		usage()
	}
	if err := v.run(os.Args[2:]); err != nil {
		fmt.Fprintf(os.Stderr, "kit %s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
}

func usage() {
	for _, v := range verbs {
		fmt.Fprintln(os.Stderr, "kit "+v.usage)
	}
	os.Exit(2)
}
