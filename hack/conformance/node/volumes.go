// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/api/v1/resource"
	"k8s.io/kubernetes/pkg/fieldpath"
)

// apiServer is the IP at which pods find the API server.
const apiServer = "10.96.0.1"

// apiPort returns the port at which the pod finds the API server: it is 443 unless the pod uses that.
func (p *pod) apiPort() string {
	if slices.Contains(p.ports(), 443) {
		return "6443"
	}
	return "443"
}

// A file is one in a volume.
type file struct {
	content []byte
	mode    os.FileMode // 0 stands for the volume's
}

// network makes the pod's sandbox, and exposes the ports that its containers name.
func (p *pod) network() (*sandbox, error) {
	s, err := newSandbox(p.hostname(), net.JoinHostPort(apiServer, p.apiPort()), p.node.server)
	if err != nil {
		return nil, err
	}
	for _, port := range p.ports() {
		if err := s.expose(p.ip, port); err != nil {
			s.close()
			return nil, fmt.Errorf("exposing port %d: %w", port, err)
		}
	}
	return s, nil
}

func (p *pod) hostname() string { return cmp.Or(p.object.Spec.Hostname, p.object.Name) }

// ports returns the TCP ports that the containers and their readiness probes name.
func (p *pod) ports() []int32 {
	var all []int32
	for _, c := range p.object.Spec.Containers {
		for _, port := range c.Ports {
			if port.Protocol == "" || port.Protocol == corev1.ProtocolTCP {
				all = append(all, port.ContainerPort)
			}
		}
		if c.ReadinessProbe != nil && c.ReadinessProbe.HTTPGet != nil {
			all = append(all, int32(c.ReadinessProbe.HTTPGet.Port.IntValue()))
		}
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(port int32) bool { return port == 0 })
}

// volume returns the directory with a volume's files.
func (p *pod) volume(name string) string {
	for _, v := range p.object.Spec.Volumes {
		switch { // these are the same for all pods
		case v.Name == name && v.HostPath != nil:
			return filepath.Join(p.node.dir, "host", v.HostPath.Path)
		case v.Name == name && v.PersistentVolumeClaim != nil:
			return filepath.Join(p.node.dir, "claims", p.object.Namespace, v.PersistentVolumeClaim.ClaimName)
		}
	}
	return filepath.Join(p.dir, "volumes", name)
}

// writeVolumes makes the volumes and their files.
func (p *pod) writeVolumes(ctx context.Context) error {
	for _, v := range p.object.Spec.Volumes {
		files, err := p.volumeFiles(ctx, &v)
		if err != nil {
			return fmt.Errorf("volume %s: %w", v.Name, err)
		}
		if err := p.makeVolume(&v, files); err != nil {
			return fmt.Errorf("volume %s: %w", v.Name, err)
		}
	}
	return nil
}

// makeVolume makes the directory of a volume.
func (p *pod) makeVolume(v *corev1.Volume, files map[string]file) error {
	dir := p.volume(v.Name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if v.EmptyDir != nil && v.EmptyDir.Medium == corev1.StorageMediumMemory {
		if err := p.sandbox.do(func() error { return unix.Mount("tmpfs", dir, "tmpfs", 0, "") }); err != nil {
			return fmt.Errorf("mounting memory: %w", err)
		}
	}
	// The sandbox sees the mounted directory.
	if err := p.sandbox.do(func() error { return os.Chmod(dir, 0o777) }); err != nil {
		return err
	}
	for name, f := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := errors.Join(os.WriteFile(path, f.content, 0o600), os.Chmod(path, cmp.Or(f.mode, volumeMode(v)))); err != nil {
			return err
		}
	}
	return nil
}

// volumeMode returns the mode of a volume's files.
func volumeMode(v *corev1.Volume) os.FileMode {
	var mode *int32
	switch {
	case v.Secret != nil:
		mode = v.Secret.DefaultMode
	case v.ConfigMap != nil:
		mode = v.ConfigMap.DefaultMode
	case v.Projected != nil:
		mode = v.Projected.DefaultMode
	case v.DownwardAPI != nil:
		mode = v.DownwardAPI.DefaultMode
	}
	if mode == nil {
		return 0o644
	}
	return os.FileMode(*mode)
}

// volumeFiles returns the files of a volume, by their names.
func (p *pod) volumeFiles(ctx context.Context, v *corev1.Volume) (map[string]file, error) {
	switch {
	case v.EmptyDir != nil, v.HostPath != nil, v.PersistentVolumeClaim != nil:
		return nil, nil
	case v.Secret != nil:
		return p.secret(ctx, v.Secret.SecretName, v.Secret.Items, v.Secret.Optional)
	case v.ConfigMap != nil:
		return p.configMap(ctx, v.ConfigMap.Name, v.ConfigMap.Items, v.ConfigMap.Optional)
	case v.Projected != nil:
		all := map[string]file{}
		for _, source := range v.Projected.Sources {
			files, err := p.projected(ctx, &source)
			if err != nil {
				return nil, err
			}
			maps.Copy(all, files)
		}
		return all, nil
	case v.DownwardAPI != nil:
		return p.downward(v.DownwardAPI.Items)
	}
	return nil, errors.ErrUnsupported
}

func (p *pod) projected(ctx context.Context, source *corev1.VolumeProjection) (map[string]file, error) {
	switch {
	case source.Secret != nil:
		return p.secret(ctx, source.Secret.Name, source.Secret.Items, source.Secret.Optional)
	case source.ConfigMap != nil:
		return p.configMap(ctx, source.ConfigMap.Name, source.ConfigMap.Items, source.ConfigMap.Optional)
	case source.DownwardAPI != nil:
		return p.downward(source.DownwardAPI.Items)
	case source.ServiceAccountToken != nil:
		request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
			ExpirationSeconds: source.ServiceAccountToken.ExpirationSeconds,
			BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: p.object.Name,
				UID: p.object.UID}}}
		if audience := source.ServiceAccountToken.Audience; audience != "" {
			request.Spec.Audiences = []string{audience}
		}
		token, err := p.node.client.CoreV1().ServiceAccounts(p.object.Namespace).CreateToken(ctx,
			p.object.Spec.ServiceAccountName, request, metav1.CreateOptions{})
		if err != nil {
			return nil, err
		}
		return map[string]file{source.ServiceAccountToken.Path: {content: []byte(token.Status.Token)}}, nil
	}
	return nil, errors.ErrUnsupported
}

func (p *pod) secret(ctx context.Context, name string, items []corev1.KeyToPath, optional *bool) (map[string]file, error) {
	secret, err := p.node.client.CoreV1().Secrets(p.object.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, unlessOptional(err, optional)
	}
	return selectItems(secret.Data, items)
}

func (p *pod) configMap(ctx context.Context, name string, items []corev1.KeyToPath, optional *bool) (map[string]file, error) {
	object, err := p.node.client.CoreV1().ConfigMaps(p.object.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, unlessOptional(err, optional)
	}
	all := map[string][]byte{}
	maps.Copy(all, object.BinaryData)
	for name, value := range object.Data {
		all[name] = []byte(value)
	}
	return selectItems(all, items)
}

func unlessOptional(err error, optional *bool) error {
	if optional != nil && *optional && apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// selectItems returns the files that a volume has of a ConfigMap or a Secret.
func selectItems(data map[string][]byte, items []corev1.KeyToPath) (map[string]file, error) {
	selected := map[string]file{}
	if len(items) == 0 {
		for name, content := range data {
			selected[name] = file{content: content}
		}
	}
	for _, item := range items {
		content, ok := data[item.Key]
		if !ok {
			return nil, fmt.Errorf("there is no key %s", item.Key)
		}
		selected[item.Path] = file{content, fileMode(item.Mode)}
	}
	return selected, nil
}

func fileMode(mode *int32) os.FileMode {
	if mode == nil {
		return 0
	}
	return os.FileMode(*mode)
}

func (p *pod) downward(items []corev1.DownwardAPIVolumeFile) (map[string]file, error) {
	files := map[string]file{}
	for _, item := range items {
		value, err := p.value(item.FieldRef, item.ResourceFieldRef, "")
		if err != nil {
			return nil, err
		}
		files[item.Path] = file{[]byte(value), fileMode(item.Mode)}
	}
	return files, nil
}

// value returns a field of the pod, or a resource of a container: of the one that is named, if there is.
func (p *pod) value(field *corev1.ObjectFieldSelector, of *corev1.ResourceFieldSelector, container string) (string, error) {
	if field != nil {
		return p.field(field.FieldPath)
	}
	return resource.ExtractResourceValueByContainerNameAndNodeAllocatable(of, p.object,
		cmp.Or(of.ContainerName, container), allocatable)
}

// field returns a field of the pod.
func (p *pod) field(path string) (string, error) {
	switch path {
	case "status.podIP", "status.podIPs":
		return p.ip.String(), nil
	case "status.hostIP", "status.hostIPs":
		return firstIP.String(), nil
	case "spec.nodeName":
		return p.object.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return p.object.Spec.ServiceAccountName, nil
	}
	return fieldpath.ExtractFieldPathAsString(p.object, path)
}

// environment returns a container's variables.
func (p *pod) environment(c *corev1.Container) (map[string]string, error) {
	env := map[string]string{"PATH": "/bin:/", "HOME": "/", "HOSTNAME": p.hostname(),
		"KUBERNETES_SERVICE_HOST": apiServer, "KUBERNETES_SERVICE_PORT": p.apiPort()}
	for i, variable := range c.Env {
		switch from := variable.ValueFrom; {
		case from == nil:
			env[variable.Name] = variable.Value
		case from.FieldRef != nil || from.ResourceFieldRef != nil:
			value, err := p.value(from.FieldRef, from.ResourceFieldRef, c.Name)
			if err != nil {
				return nil, err
			}
			env[variable.Name] = value
		default:
			return nil, fmt.Errorf("env[%s]: %w", strconv.Itoa(i), errors.ErrUnsupported)
		}
	}
	return env, nil
}
