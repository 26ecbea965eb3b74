// Package provisioner makes PersistentVolumes of type local: directories of the
// one node. Type local and not hostPath, because the kubelet applies fsGroup to
// local volumes and never to hostPath ones.
package provisioner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v10/controller"
)

// Name is what a StorageClass names as its provisioner.
const Name = "cuddy.test/local"

// NewCommand returns the program: it provisions until its context ends.
func NewCommand() *cobra.Command {
	var kubeconfig, dir, node string
	cmd := &cobra.Command{
		Use:   "local-provisioner",
		Short: "Makes local PersistentVolumes on one node",
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
			if err != nil {
				return fmt.Errorf("read kubeconfig: %w", err)
			}
			client, err := kubernetes.NewForConfig(config)
			if err != nil {
				return fmt.Errorf("make client: %w", err)
			}
			ctx := cmd.Context()
			controller.NewProvisionController(klog.FromContext(ctx), client, Name,
				&local{dir: dir, node: node},
				// There is one of us; a lease of an instance that was killed
				// would only hold the next one up.
				controller.LeaderElection(false),
			).Run(ctx)
			return nil
		},
	}
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig of the provisioner")
	cmd.Flags().StringVar(&dir, "dir", "", "directory that holds the volumes")
	cmd.Flags().StringVar(&node, "node", "", "name of the node that the directory is on")
	return cmd
}

type local struct{ dir, node string }

func (p *local) Provision(_ context.Context, options controller.ProvisionOptions) (*v1.PersistentVolume, controller.ProvisioningState, error) {
	claim := options.PVC
	if claim.Spec.VolumeMode != nil && *claim.Spec.VolumeMode != v1.PersistentVolumeFilesystem {
		return nil, controller.ProvisioningFinished, errors.New("only volumes of mode Filesystem are served")
	}
	path := filepath.Join(p.dir, options.PVName)
	if err := os.MkdirAll(path, 0o777); err != nil {
		return nil, controller.ProvisioningFinished, fmt.Errorf("make volume: %w", err)
	}
	// MkdirAll is cut by the umask; a pod without fsGroup must be able to write.
	if err := os.Chmod(path, 0o777); err != nil {
		return nil, controller.ProvisioningFinished, fmt.Errorf("open volume: %w", err)
	}
	return &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: options.PVName},
		Spec: v1.PersistentVolumeSpec{
			AccessModes:                   claim.Spec.AccessModes,
			Capacity:                      v1.ResourceList{v1.ResourceStorage: claim.Spec.Resources.Requests[v1.ResourceStorage]},
			MountOptions:                  options.StorageClass.MountOptions,
			PersistentVolumeReclaimPolicy: *options.StorageClass.ReclaimPolicy,
			PersistentVolumeSource:        v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: path}},
			NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{
				NodeSelectorTerms: []v1.NodeSelectorTerm{{
					MatchExpressions: []v1.NodeSelectorRequirement{{
						Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: []string{p.node},
					}},
				}},
			}},
		},
	}, controller.ProvisioningFinished, nil
}

func (p *local) Delete(_ context.Context, volume *v1.PersistentVolume) error {
	if volume.Spec.Local == nil {
		return fmt.Errorf("volume %s is not of type local", volume.Name)
	}
	path := filepath.Clean(volume.Spec.Local.Path)
	// A volume whose path was edited must not make us delete something else.
	if filepath.Dir(path) != filepath.Clean(p.dir) {
		return fmt.Errorf("volume %s lies outside %s", volume.Name, p.dir)
	}
	if err := os.RemoveAll(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove volume: %w", err)
	}
	return nil
}
