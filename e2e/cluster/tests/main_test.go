package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	shared := os.Getenv("CUDDY_CLUSTER_DIR")
	if shared == "" {
		shared = filepath.Join(room, "..", "..", "target", "cluster")
	}
	own := shared + "-test"
	if err := link(shared, own); err != nil {
		return 1, err
	}
	if err := os.Setenv("CUDDY_CLUSTER_DIR", own); err != nil {
		return 1, err
	}
	// Nothing of an earlier run may help this one.
	if _, err := command("", time.Minute, "down", "--clean"); err != nil {
		return 1, err
	}
	began := time.Now()
	if _, err := command("", 9*time.Minute, "up"); err != nil {
		_, _ = command("", time.Minute, "down")
		return 1, err
	}
	fmt.Printf("up after %.1f s\n", time.Since(began).Seconds())
	code := m.Run()
	if code == 0 {
		_, err := command("", time.Minute, "down", "--clean")
		return code, err
	}
	fmt.Fprintln(os.Stderr, "logs of the cluster:", filepath.Join(own, "log"))
	_, err := command("", time.Minute, "down")
	return code, err
}

// link gives the own folder what was built in the shared one.
func link(shared, own string) error {
	for _, name := range []string{"bin", "images"} {
		target := filepath.Join(shared, name)
		if err := os.MkdirAll(target, 0o755); err != nil {
			return err
		}
		if err := os.MkdirAll(own, 0o755); err != nil {
			return err
		}
		if err := os.Symlink(target, filepath.Join(own, name)); err != nil && !os.IsExist(err) {
			return err
		}
	}
	return nil
}
