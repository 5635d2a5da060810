// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package controlplane_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// secondAddress is the second API server's, which would be another machine's.
const secondAddress, secondPort = "10.0.0.2", "6444"

// testRestart ends the API server by a signal while a Deployment rolls, and another one after.
func testRestart(t *testing.T, c *cluster, signal syscall.Signal) {
	name := strings.ToLower(signal.String())
	c.deploy(t, name, 3)
	before := c.startTime(t)
	c.restart(apiServerPod, signal)
	await(t, func(ctx context.Context) error {
		_, err := c.client.CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	if after := c.startTime(t); after == before {
		t.Fatal("the API server hasn't ended")
	}
	c.roll(t, name)
	c.deploy(t, name+"-after", 3)
}

// startTime is when the API server's process started.
func (c *cluster) startTime(t *testing.T) string {
	t.Helper()
	var text []byte
	await(t, func(ctx context.Context) (err error) {
		text, err = c.client.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
		return err
	})
	for line := range strings.Lines(string(text)) {
		if start, found := strings.CutPrefix(line, "process_start_time_seconds "); found {
			return start
		}
	}
	t.Fatal("/metrics has no process_start_time_seconds")
	return ""
}

// testSecond adds an API server with the first one's command line, but for the address and the port,
// ends the first one, and starts it again.
func testSecond(t *testing.T, c *cluster) {
	manifest, err := os.ReadFile(c.path(manifests + "/" + apiServerPod))
	if err != nil {
		t.Fatal(err)
	}
	flag := func(name, value string) string { return "- --" + name + "=" + value + "\n" }
	second := strings.NewReplacer(flag("advertise-address", address), flag("advertise-address", secondAddress),
		flag("secure-port", "6443"), flag("secure-port", secondPort)).Replace(string(manifest))
	if err := os.WriteFile(c.path(manifests+"/second.yaml"), []byte(second), 0o600); err != nil {
		t.Fatal(err)
	}
	config := rest.CopyConfig(c.config)
	config.Host = "https://" + address + ":" + secondPort // the certificate is for this address
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	other := &cluster{c.machine, config, client}
	addresses := func(want ...string) {
		t.Helper()
		await(t, func(ctx context.Context) error { return other.kubernetesService(ctx, want) })
	}
	addresses(address, secondAddress)

	// Each server has what the other one has acknowledged.
	c.createNamespace(t, "shared")
	if _, err := other.client.CoreV1().Namespaces().Get(t.Context(), "shared", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	if err := os.Remove(c.path(manifests + "/" + apiServerPod)); err != nil {
		t.Fatal(err)
	}
	addresses(secondAddress)
	other.createNamespace(t, "alone")
	begin := time.Now()
	if err := os.WriteFile(c.path(manifests+"/"+apiServerPod), manifest, 0o600); err != nil {
		t.Fatal(err)
	}
	addresses(address, secondAddress)
	t.Logf("The first server is back after %s.", time.Since(begin).Round(time.Millisecond))
	// kube-controller-manager and kube-scheduler, which know the first server only, go on.
	c.deploy(t, "after", 3)
}

// testTakeover makes the first API server kube-apiserver, beside the second one, which stays
// Gatehouse, and then Gatehouse again.
func testTakeover(t *testing.T, c *cluster) {
	file := c.path(manifests + "/" + apiServerPod)
	manifest, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var pod corev1.Pod
	if err := yaml.Unmarshal(manifest, &pod); err != nil {
		t.Fatal(err)
	}
	theirs := strings.ReplaceAll(string(manifest), pod.Spec.Containers[0].Image, "registry.k8s.io/kube-apiserver:v1.37.2")
	for _, server := range []struct {
		name, manifest, version string
	}{
		{"kube-apiserver", theirs, "v1.37.2"},
		{"gatehouse-again", string(manifest), "v1.37.2+gatehouse"},
	} {
		if err := os.WriteFile(file, []byte(server.manifest), 0o600); err != nil {
			t.Fatal(err)
		}
		await(t, func(context.Context) error {
			version, err := c.client.Discovery().ServerVersion()
			if err == nil && version.GitVersion != server.version {
				err = fmt.Errorf("the server is %s, want %s", version.GitVersion, server.version)
			}
			return err
		})
		c.roll(t, "after")
		c.deploy(t, server.name, 3)
	}
}

// kubernetesService returns an error unless the kubernetes Service has these addresses.
func (c *cluster) kubernetesService(ctx context.Context, want []string) error {
	slice, err := c.client.DiscoveryV1().EndpointSlices("default").Get(ctx, "kubernetes", metav1.GetOptions{})
	if err != nil {
		return err
	}
	var got []string
	for _, endpoint := range slice.Endpoints {
		got = append(got, endpoint.Addresses...)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		return fmt.Errorf("the kubernetes Service has the addresses %v, want %v", got, want)
	}
	return nil
}
