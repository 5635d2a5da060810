// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package running_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apiserver/pkg/admission"
	corev1listers "k8s.io/client-go/listers/core/v1"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/internal/podcache"
	"gatehouse.dev/plugin"
	"gatehouse.dev/server"
	"gatehouse.dev/test/servertest"
)

// The server's own cache of pods, which the storage feeds and not the API, has what the API says,
// as pods come, change and go, and from the start on of a server that finds some.
func TestPodsOfTheServersOwnCache(t *testing.T) {
	dir, err := os.MkdirTemp("", "gatehouse-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	var cached corev1listers.PodLister
	look := gatehousetest.WithConfig(func(c *server.Config) {
		c.Plugins = append(c.Plugins, plugin.Descriptor{Name: "Look", Default: true, Phases: plugin.Validating, Operations: []admission.Operation{admission.Create},
			New: func(_ io.Reader, env *plugin.Env) (plugin.Plugin, error) {
				cached = env.Informers.Core().V1().Pods().Lister()
				return looking{}, nil
			}})
	})
	running := gatehousetest.StartIn(t, dir, look)
	c := servertest.Connect(running)
	namespace := c.Namespace(t, nil)
	same := func(name string) error {
		want, err := c.Client.CoreV1().Pods(namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		got, err := cached.Pods(namespace).Get(name)
		if err != nil {
			return err
		}
		if _, err := podcache.Trim(want); err != nil {
			return err
		}
		if difference := diff.Diff(want, got); difference != "" {
			return fmt.Errorf("the API has -, the cache +: %s", difference)
		}
		return nil
	}

	names := map[string]string{"": "nowhere", "one": "somewhere"}
	pods := c.Client.CoreV1().Pods(namespace)
	for node, name := range names {
		pod := servertest.Pod(name)
		pod.Labels, pod.Spec.NodeName = map[string]string{"app": "web"}, node
		pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: "b"}, {Name: "S",
			ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{Key: "k",
				LocalObjectReference: corev1.LocalObjectReference{Name: "s"}}}}}
		if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		servertest.Retry(t, "a pod to be there", func() error { return same(name) })
		if _, err := pods.Patch(t.Context(), name, types.MergePatchType,
			[]byte(`{"metadata":{"finalizers":["example.com/kept"]}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		servertest.Retry(t, "a pod to be as it was changed", func() error { return same(name) })
	}

	running.Stop()
	c = servertest.Connect(gatehousetest.StartIn(t, dir, look))
	pods = c.Client.CoreV1().Pods(namespace)
	for _, name := range names {
		// It is ready: it has all of them.
		if err := same(name); err != nil {
			t.Error(err)
		}
		for _, do := range []func() error{
			func() error { return pods.Delete(t.Context(), name, *metav1.NewDeleteOptions(0)) },
			func() error {
				_, err := pods.Patch(t.Context(), name, types.MergePatchType,
					[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
				return err
			},
		} {
			if err := do(); err != nil {
				t.Fatal(err)
			}
		}
		servertest.Eventually(t, "a pod to be gone", func() bool {
			_, err := cached.Pods(namespace).Get(name)
			return apierrors.IsNotFound(err)
		})
	}
}

// looking refuses nothing.
type looking struct{}

func (looking) Validate(context.Context, admission.Attributes, admission.ObjectInterfaces) error {
	return nil
}
