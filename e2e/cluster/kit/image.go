package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// image writes an OCI archive. A file in an image without a distribution needs
// no container to build in, and an archive that is not compressed is imported
// faster than a compressed one is made.
func image(args []string) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	var spec imageSpec
	flags.StringVar(&spec.name, "name", "", "full name of the image, with its tag")
	flags.StringVar(&spec.user, "user", "", "user that the image runs as")
	flags.StringVar(&spec.workdir, "workdir", "/", "working directory")
	out := flags.String("out", "", "archive to write")
	base := flags.String("base", "", "tar archive that is the image's first layer")
	entrypoint := flags.String("entrypoint", "", "program and arguments, separated by blanks")
	environment := flags.String("env", "", "NAME=VALUE pairs, separated by blanks")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if spec.name == "" || *out == "" {
		return errors.New("-name and -out are needed")
	}
	spec.entrypoint = strings.Fields(*entrypoint)
	spec.env = append([]string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
		strings.Fields(*environment)...)

	var layers []layer
	if *base != "" {
		l, err := layerFromFile(*base)
		if err != nil {
			return err
		}
		layers = append(layers, l)
	}
	if flags.NArg() > 0 {
		path := *out + ".layer"
		defer os.Remove(path)
		l, err := layerFromSources(path, flags.Args())
		if err != nil {
			return err
		}
		layers = append(layers, l)
	}

	// Whoever reads the archive's name finds a whole one.
	unfinished := *out + ".tmp"
	digest, err := writeArchive(unfinished, spec, layers)
	if err != nil {
		os.Remove(unfinished)
		return err
	}
	if err := os.Rename(unfinished, *out); err != nil {
		return err
	}
	// The digest beside it tells, without opening it, whether a node has it.
	line := fmt.Sprintf("%s %s\n", spec.name, digest)
	return os.WriteFile(strings.TrimSuffix(*out, filepath.Ext(*out))+".digest", []byte(line), 0o644)
}

type imageSpec struct {
	name, user, workdir string
	entrypoint, env     []string
}
