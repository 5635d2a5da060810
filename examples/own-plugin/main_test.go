// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"gatehouse.dev/cli"
	"gatehouse.dev/plugin/plugintest"
)

func pod(image string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: image}}},
	}
}

// The plugin by itself, as every plugin can be tested.
func TestNoLatest(t *testing.T) {
	subject := plugintest.New(t, NoLatest, "")
	for image, refused := range map[string]bool{
		"nginx:1.29":                 false,
		"registry:5000/nginx:1.29":   false,
		"nginx@sha256:" + "beb6bd6a": false,
		"nginx":                      true,
		"nginx:latest":               true,
		"registry:5000/nginx":        true,
	} {
		result := subject.Validate(t, plugintest.Create(pod(image)))
		if refused {
			result.Refused(t, 403,
				`pods "web" is forbidden: spec.containers[0].image: "`+image+`" may change: name a version`)
		} else {
			result.Admitted(t)
		}
	}
}

// All containers of a pod are looked at, of whatever kind they are.
func TestKindsOfContainers(t *testing.T) {
	subject := plugintest.New(t, NoLatest, "")
	const refused = `pods "web" is forbidden: spec.%s[0].image: "nginx" may change: name a version`
	init, debugged := pod("nginx:1.29"), pod("nginx:1.29")
	init.Spec.InitContainers = []corev1.Container{{Name: "i", Image: "nginx"}}
	subject.Validate(t, plugintest.Create(init)).Refused(t, 403, fmt.Sprintf(refused, "initContainers"))
	debugged.Spec.EphemeralContainers = []corev1.EphemeralContainer{
		{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "d", Image: "nginx"}},
	}
	debug := plugintest.Update(debugged, pod("nginx:1.29")).On("pods", "ephemeralcontainers")
	subject.Validate(t, debug).Refused(t, 403, fmt.Sprintf(refused, "ephemeralContainers"))
}

// The command as its user runs it.
func TestServe(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a server")
	}
	dir, err := os.MkdirTemp("", "own-plugin-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	out, stdout := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- cli.Run(ctx, list, []string{"serve", "--data-dir=" + dir, "--secure-port=" + freePort(t)}, stdout,
			os.Stderr)
		stdout.Close()
	}()
	defer func() {
		cancel()
		if code := <-ended; code != 0 {
			t.Errorf("exit code %d", code)
		}
	}()
	lines := bufio.NewScanner(out)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "Use it:") {
	}
	go io.Copy(io.Discard, out)

	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "admin.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	pods := kubernetes.NewForConfigOrDie(config).CoreV1().Pods("default")
	if _, err := pods.Create(ctx, pod("nginx"), metav1.CreateOptions{}); err == nil ||
		!strings.Contains(err.Error(), "name a version") {
		t.Errorf("creating a pod of nginx: %v, want a refusal", err)
	}
	if _, err := pods.Create(ctx, pod("nginx:1.29"), metav1.CreateOptions{}); err != nil {
		t.Errorf("creating a pod of nginx:1.29: %v", err)
	}
}

func freePort(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
}
