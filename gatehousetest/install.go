// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package gatehousetest

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"gatehouse.dev/apiserver/pki"
	"gatehouse.dev/internal/review/input"
	webhookserver "gatehouse.dev/webhook/server"
)

// The objects that are made from files, by kind.
var (
	customKinds = map[string]schema.GroupVersionResource{
		"CustomResourceDefinition": {Group: "apiextensions.k8s.io", Version: "v1",
			Resource: "customresourcedefinitions"},
	}
	webhookKinds = map[string]schema.GroupVersionResource{
		"MutatingWebhookConfiguration": {Group: "admissionregistration.k8s.io", Version: "v1",
			Resource: "mutatingwebhookconfigurations"},
		"ValidatingWebhookConfiguration": {Group: "admissionregistration.k8s.io", Version: "v1",
			Resource: "validatingwebhookconfigurations"},
	}
)

const (
	// servedPoll is how often CRDs checks whether a custom kind is served, and servedWithin bounds
	// the wait. It is far more than it takes.
	servedPoll   = 5 * time.Millisecond
	servedWithin = 30 * time.Second
)

// CRDs creates the custom kinds that files define, and those in folders and below them, and waits
// until they are served. It ignores other objects in the files. A definition that exists already is
// updated.
func (s *Server) CRDs(ctx context.Context, paths ...string) error {
	definitions, err := read(customKinds, paths)
	if err != nil {
		return err
	}
	client, err := s.client()
	if err != nil {
		return err
	}
	for _, definition := range definitions {
		if err := put(ctx, client.Resource(customKinds[definition.GetKind()]), definition); err != nil {
			return err
		}
	}
	finder, err := discovery.NewDiscoveryClientForConfig(s.Config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, servedWithin)
	defer cancel()
	for _, definition := range definitions {
		if err := awaitServed(ctx, finder, definition); err != nil {
			return fmt.Errorf("%s %q is not served: %w", definition.GetKind(), definition.GetName(), err)
		}
	}
	return nil
}

// awaitServed waits until a definition's kind is served in all its served versions.
func awaitServed(ctx context.Context, finder discovery.DiscoveryInterface,
	definition *unstructured.Unstructured) error {
	group, _, _ := unstructured.NestedString(definition.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(definition.Object, "spec", "names", "plural")
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	for _, version := range versions {
		fields, _ := version.(map[string]any)
		name, _, _ := unstructured.NestedString(fields, "name")
		if served, _, _ := unstructured.NestedBool(fields, "served"); !served {
			continue
		}
		gv := schema.GroupVersion{Group: group, Version: name}
		var last error
		err := wait.PollUntilContextCancel(ctx, servedPoll, true, func(context.Context) (bool, error) {
			list, err := finder.ServerResourcesForGroupVersion(gv.String())
			last = err
			return err == nil && slices.ContainsFunc(list.APIResources,
				func(r metav1.APIResource) bool { return r.Name == plural }), nil
		})
		if err != nil {
			return errors.Join(err, last)
		}
	}
	return nil
}

// Webhooks creates the webhook configurations of files, and of folders and everything below them,
// and points their webhooks to handler. The webhooks keep their paths, on a server of the test's
// own, with an authority made for it. Conversion webhooks of existing custom kinds are pointed
// there too; if there are no others, name no file. When Webhooks returns, the server calls the
// webhooks; a shared server does so a moment later. The webhooks' server ends with s. Package
// webhook/server makes handlers of functions.
func (s *Server) Webhooks(ctx context.Context, handler http.Handler, paths ...string) error {
	var configurations []*unstructured.Unstructured
	var err error
	if len(paths) > 0 {
		if configurations, err = read(webhookKinds, paths); err != nil {
			return err
		}
	}
	client, err := s.client()
	if err != nil {
		return err
	}
	base, ca, err := s.serve(handler)
	if err != nil {
		return err
	}
	for _, configuration := range configurations {
		hooks, _, err := unstructured.NestedSlice(configuration.Object, "webhooks")
		if err != nil {
			return fmt.Errorf("%s %q: %w", configuration.GetKind(), configuration.GetName(), err)
		}
		for _, hook := range hooks {
			if fields, ok := hook.(map[string]any); ok {
				pointTo(fields, base, ca)
			}
		}
		if err := unstructured.SetNestedSlice(configuration.Object, hooks, "webhooks"); err != nil {
			return err
		}
		if err := put(ctx, client.Resource(webhookKinds[configuration.GetKind()]), configuration); err != nil {
			return err
		}
	}
	if err := convertAt(ctx, client, base, ca); err != nil || s.running == nil {
		return err
	}
	return s.running.AwaitStored(ctx)
}

// convertAt points conversion webhooks to a server.
func convertAt(ctx context.Context, client dynamic.Interface, base string, ca []byte) error {
	definitions := client.Resource(customKinds["CustomResourceDefinition"])
	list, err := definitions.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, definition := range list.Items {
		webhook, found, _ := unstructured.NestedMap(definition.Object, "spec", "conversion", "webhook")
		if !found {
			continue
		}
		pointTo(webhook, base, ca)
		if err := unstructured.SetNestedMap(definition.Object, webhook, "spec", "conversion", "webhook"); err != nil {
			return err
		}
		if _, err := definitions.Update(ctx, &definition, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// pointTo replaces a clientConfig by one for the same path on another server.
func pointTo(webhook map[string]any, base string, ca []byte) {
	path, _, _ := unstructured.NestedString(webhook, "clientConfig", "service", "path")
	if given, _, _ := unstructured.NestedString(webhook, "clientConfig", "url"); given != "" {
		_, rest, _ := strings.Cut(given, "://")
		_, path, _ = strings.Cut(rest, "/")
	}
	webhook["clientConfig"] = map[string]any{"url": base + "/" + strings.TrimPrefix(path, "/"),
		"caBundle": base64.StdEncoding.EncodeToString(ca)}
}

// serve serves handler until s ends, on a port of the loopback address.
func (s *Server) serve(handler http.Handler) (url string, ca []byte, err error) {
	authority, err := pki.NewAuthority()
	if err != nil {
		return "", nil, err
	}
	certPEM, keyPEM, err := authority.Serving("webhook", []string{"127.0.0.1"})
	if err != nil {
		return "", nil, err
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return "", nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	served := &webhookserver.Server{Handler: handler,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &pair, nil }}
	go func() {
		defer close(ended)
		if err := served.Serve(ctx, listener); err != nil {
			klog.ErrorS(err, "The test's webhook server ended")
		}
	}()
	s.cleanups = append(s.cleanups, func() {
		stop()
		<-ended
	})
	return "https://" + listener.Addr().String(), authority.CertPEM(), nil
}

// read reads the objects of some kinds from files and folders.
func read(kinds map[string]schema.GroupVersionResource, paths []string) ([]*unstructured.Unstructured, error) {
	if len(paths) == 0 {
		return nil, errors.New("no file or folder is named")
	}
	documents, errs := input.Read(paths, strings.NewReader(""))
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	var found []*unstructured.Unstructured
	for _, document := range documents {
		resource, ok := kinds[document.Object.GetKind()]
		if !ok || document.Object.GroupVersionKind().Group != resource.Group {
			continue
		}
		if version := document.Object.GroupVersionKind().Version; version != resource.Version {
			return nil, fmt.Errorf("%s: %s %q is of version %s, which is no longer served: it must be %s",
				document.Source, document.Object.GetKind(), document.Object.GetName(), version, resource.Version)
		}
		found = append(found, document.Object)
	}
	if len(found) == 0 {
		absolute, _ := filepath.Abs(paths[0])
		return nil, fmt.Errorf("there is nothing to make in %q (%s)", paths, absolute)
	}
	return found, nil
}

// put creates an object, or updates an existing one.
func put(ctx context.Context, client dynamic.ResourceInterface, object *unstructured.Unstructured) error {
	_, err := client.Create(ctx, object, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	there, err := client.Get(ctx, object.GetName(), metav1.GetOptions{})
	if err != nil {
		return err
	}
	object.SetResourceVersion(there.GetResourceVersion())
	_, err = client.Update(ctx, object, metav1.UpdateOptions{})
	return err
}

// User returns a client configuration for a user, who may do what the roles bound to the name and
// the groups allow. The group system:masters allows everything. The user has a certificate; with a
// shared server the administrator impersonates the user.
func (s *Server) User(name string, groups ...string) (*rest.Config, error) {
	config := rest.CopyConfig(s.Config)
	if s.DataDir == "" {
		config.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: groups}
		return config, nil
	}
	authority, err := pki.LoadAuthority(filepath.Join(s.DataDir, "pki"))
	if err != nil {
		return nil, err
	}
	config.CertData, config.KeyData, err = authority.Client(name, groups...)
	return config, err
}
