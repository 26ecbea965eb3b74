package main

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
)

// A layer is a tar file; as it is not compressed, its digest is also the
// digest of its content that an image's configuration names.
type layer struct {
	path, digest string
	size         int64
}

func layerFromFile(path string) (layer, error) {
	file, err := os.Open(path)
	if err != nil {
		return layer{}, err
	}
	defer file.Close()
	sum := sha256.New()
	size, err := io.Copy(sum, file)
	if err != nil {
		return layer{}, err
	}
	return layer{path, "sha256:" + hex.EncodeToString(sum.Sum(nil)), size}, nil
}

// layerFromSources makes a layer of SOURCE=TARGET pairs. Owners and times are
// fixed: the same files give the same digest.
func layerFromSources(out string, pairs []string) (layer, error) {
	file, err := os.Create(out)
	if err != nil {
		return layer{}, err
	}
	defer file.Close()
	archive := tar.NewWriter(file)
	made := map[string]bool{"/": true}
	for _, pair := range pairs {
		source, target, ok := strings.Cut(pair, "=")
		if !ok {
			return layer{}, fmt.Errorf("%q is not SOURCE=TARGET", pair)
		}
		target = path.Clean("/" + target)
		if err := addParents(archive, path.Dir(target), made); err != nil {
			return layer{}, err
		}
		if err := addFile(archive, source, target); err != nil {
			return layer{}, fmt.Errorf("add %s: %w", source, err)
		}
	}
	if err := archive.Close(); err != nil {
		return layer{}, err
	}
	return layerFromFile(out)
}

func addParents(archive *tar.Writer, dir string, made map[string]bool) error {
	if made[dir] {
		return nil
	}
	if err := addParents(archive, path.Dir(dir), made); err != nil {
		return err
	}
	made[dir] = true
	return archive.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir[1:] + "/", Mode: 0o755})
}

func addFile(archive *tar.Writer, source, target string) error {
	file, err := os.Open(source)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	mode := int64(0o644)
	if info.Mode()&0o111 != 0 {
		mode = 0o755
	}
	header := &tar.Header{Typeflag: tar.TypeReg, Name: target[1:], Mode: mode, Size: info.Size()}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(archive, file)
	return err
}
