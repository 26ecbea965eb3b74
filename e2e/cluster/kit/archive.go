package main

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"runtime"
	"strings"
)

const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar"
)

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// writeArchive writes the image and returns the digest of its manifest.
func writeArchive(out string, spec imageSpec, layers []layer) (string, error) {
	config := map[string]any{
		"architecture": runtime.GOARCH,
		"os":           "linux",
		"config": map[string]any{
			"User": spec.user, "WorkingDir": spec.workdir,
			"Env": spec.env, "Entrypoint": spec.entrypoint,
		},
		"rootfs": map[string]any{"type": "layers", "diff_ids": digests(layers)},
	}
	configData, configDescriptor, err := blob(typeConfig, config)
	if err != nil {
		return "", err
	}
	layerDescriptors := make([]descriptor, 0, len(layers))
	for _, l := range layers {
		layerDescriptors = append(layerDescriptors, descriptor{MediaType: typeLayer, Digest: l.digest, Size: l.size})
	}
	manifestData, manifest, err := blob(typeManifest, map[string]any{
		"schemaVersion": 2, "mediaType": typeManifest,
		"config": configDescriptor, "layers": layerDescriptors,
	})
	if err != nil {
		return "", err
	}
	manifest.Annotations = map[string]string{
		"io.containerd.image.name":          spec.name,
		"org.opencontainers.image.ref.name": spec.name,
	}
	indexData, _, err := blob(typeIndex, map[string]any{
		"schemaVersion": 2, "mediaType": typeIndex, "manifests": []descriptor{manifest},
	})
	if err != nil {
		return "", err
	}

	file, err := os.Create(out)
	if err != nil {
		return "", err
	}
	defer file.Close()
	archive := tar.NewWriter(file)
	for _, entry := range []struct {
		name string
		data []byte
	}{
		{"oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)},
		{"index.json", indexData},
		{blobName(configDescriptor.Digest), configData},
		{blobName(manifest.Digest), manifestData},
	} {
		if err := addBlob(archive, entry.name, int64(len(entry.data)), strings.NewReader(string(entry.data))); err != nil {
			return "", err
		}
	}
	for _, l := range layers {
		if err := addLayer(archive, l); err != nil {
			return "", err
		}
	}
	if err := archive.Close(); err != nil {
		return "", err
	}
	return manifest.Digest, file.Close()
}

func blob(mediaType string, value any) ([]byte, descriptor, error) {
	data, err := json.Marshal(value)
	sum := sha256.Sum256(data)
	digest := "sha256:" + hex.EncodeToString(sum[:])
	return data, descriptor{MediaType: mediaType, Digest: digest, Size: int64(len(data))}, err
}

func blobName(digest string) string {
	return "blobs/sha256/" + strings.TrimPrefix(digest, "sha256:")
}

func addLayer(archive *tar.Writer, l layer) error {
	file, err := os.Open(l.path)
	if err != nil {
		return err
	}
	defer file.Close()
	return addBlob(archive, blobName(l.digest), l.size, file)
}

func addBlob(archive *tar.Writer, name string, size int64, data io.Reader) error {
	if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: size}); err != nil {
		return err
	}
	_, err := io.Copy(archive, data)
	return err
}

func digests(layers []layer) []string {
	all := make([]string, 0, len(layers))
	for _, l := range layers {
		all = append(all, l.digest)
	}
	return all
}
