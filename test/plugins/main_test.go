// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plugins_test holds the list of plugins against Kubernetes' own, and runs the plugins
// about runtime classes, nodes' resources and features, certificates and groups of pods in real
// servers.
package plugins_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/test/servertest"
)

var suite servertest.Suite

func TestMain(m *testing.M) { suite.Main(m) }

// shared is the server of all tests that need no feature gate of their own.
var shared = sync.OnceValue(func() *servertest.Cluster {
	return servertest.Start(&suite, gatehousetest.WithPlugins("DenyServiceExternalIPs"))
})

// user asks a server by manifests.
type user struct {
	*testing.T
	dynamic.Interface
	mapper    meta.RESTMapper
	namespace string
}

// admin is the administrator, in a namespace of the test's own.
func admin(t *testing.T, c *servertest.Cluster) user {
	t.Helper()
	groups, err := restmapper.GetAPIGroupResources(c.Client.Discovery())
	if err != nil {
		t.Fatal(err)
	}
	return user{t, c.Dynamic, restmapper.NewDiscoveryRESTMapper(groups), c.Namespace(t, nil)}
}

// as is somebody else with the same manifests.
func (u user) as(c *servertest.Cluster, name string) user {
	u.Interface = dynamic.NewForConfigOrDie(c.As(name))
	return u
}

func (u user) of(object *unstructured.Unstructured) dynamic.ResourceInterface {
	u.Helper()
	kind := object.GroupVersionKind()
	mapping, err := u.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		u.Fatal(err)
	}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		return u.Resource(mapping.Resource).Namespace(u.namespace)
	}
	return u.Resource(mapping.Resource)
}

// create creates the object of a manifest. What isn't in the test's namespace goes with the test.
func (u user) create(manifest string, subresources ...string) (*unstructured.Unstructured, error) {
	u.Helper()
	object := servertest.Parsed(u.T, manifest)
	resource := u.of(object)
	created, err := resource.Create(u.Context(), object, metav1.CreateOptions{}, subresources...)
	if err == nil && created.GetNamespace() == "" {
		u.Cleanup(func() { _ = resource.Delete(context.Background(), created.GetName(), metav1.DeleteOptions{}) })
	}
	return created, err
}

// must is create where it must go well.
func (u user) must(manifest string) *unstructured.Unstructured {
	u.Helper()
	created, err := u.create(manifest)
	if err != nil {
		u.Fatal(err)
	}
	return created
}

// patch changes an object, or a subresource of it, by a strategic merge patch in YAML.
func (u user) patch(object *unstructured.Unstructured, change string,
	subresources ...string) (*unstructured.Unstructured, error) {
	u.Helper()
	patch, err := yaml.YAMLToJSON([]byte(change))
	if err != nil {
		u.Fatal(err)
	}
	return u.of(object).Patch(u.Context(), object.GetName(), types.StrategicMergePatchType, patch,
		metav1.PatchOptions{}, subresources...)
}

// want fails the test unless the error has the text, or there is none where text is empty.
func (u user) want(err error, text string) {
	u.Helper()
	switch {
	case text == "" && err != nil:
		u.Errorf("refused: %v", err)
	case text != "" && (err == nil || !strings.Contains(err.Error(), text)):
		u.Errorf("got %v\nwant …%s", err, text)
	}
}

// eventually is want for what a cache in the server shows a moment later.
func (u user) eventually(text string, do func() error) {
	u.Helper()
	servertest.Eventually(u.T, "the answer "+text, func() bool {
		err := do()
		if text == "" {
			return err == nil
		}
		return err != nil && strings.Contains(err.Error(), text)
	})
}
