// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhookregistration_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/cmd/gatehouse/compiled"
	"gatehouse.dev/plugin"
	"gatehouse.dev/plugins/alwayspullimages"
	"gatehouse.dev/plugins/ownerreferencespermissionenforcement"
	"gatehouse.dev/remote/registration"
	"gatehouse.dev/test/servertest"
)

// What others change in a configuration is undone, and what they delete is made again, by one of
// two replicas. What isn't the installation's business stays.
func TestRepair(t *testing.T) {
	i := install(t, 2, 0, nil)
	configurations := i.cluster.Client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	first := i.mutating()
	for what, change := range map[string]func(*admissionregistrationv1.MutatingWebhookConfiguration){
		"no webhooks":   func(c *admissionregistrationv1.MutatingWebhookConfiguration) { c.Webhooks = nil },
		"no rules":      func(c *admissionregistrationv1.MutatingWebhookConfiguration) { c.Webhooks[0].Rules = nil },
		"no owner":      func(c *admissionregistrationv1.MutatingWebhookConfiguration) { c.OwnerReferences = nil },
		"no annotation": func(c *admissionregistrationv1.MutatingWebhookConfiguration) { clear(c.Annotations) },
		"another policy": func(c *admissionregistrationv1.MutatingWebhookConfiguration) {
			c.Webhooks[0].FailurePolicy = new(admissionregistrationv1.Ignore)
		},
		"another address": func(c *admissionregistrationv1.MutatingWebhookConfiguration) {
			c.Webhooks[0].ClientConfig.URL = new("https://127.0.0.1:1/")
		},
		"another selector": func(c *admissionregistrationv1.MutatingWebhookConfiguration) {
			c.Webhooks[0].NamespaceSelector = nil
		},
		"no bundle": func(c *admissionregistrationv1.MutatingWebhookConfiguration) {
			c.Webhooks[0].ClientConfig.CABundle = nil
		},
		"one webhook more": func(c *admissionregistrationv1.MutatingWebhookConfiguration) {
			more := *c.Webhooks[0].DeepCopy()
			more.Name = "more.example.com"
			c.Webhooks = append(c.Webhooks, more)
		},
	} {
		servertest.Retry(t, what, func() error {
			c := i.mutating()
			change(c)
			c.Labels["team"] = "a"
			_, err := configurations.Update(t.Context(), c, metav1.UpdateOptions{})
			return err
		})
		servertest.Retry(t, what+" to be repaired", func() error {
			i.clock.ahead(time.Second) // who changes it again and again waits
			c := i.mutating()
			if diff := cmp.Diff(first.Webhooks, c.Webhooks); diff != "" {
				return fmt.Errorf("-want +got:\n%s", diff)
			}
			if len(c.OwnerReferences) != 1 || c.OwnerReferences[0].Name != namespace || len(c.Annotations) != 1 ||
				c.Labels["team"] != "a" || c.UID != first.UID {
				return fmt.Errorf("%v", c.ObjectMeta)
			}
			return nil
		})
	}
	for range 2 {
		before := i.mutating()
		if err := configurations.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		servertest.Eventually(t, "the configuration to be made again", func() bool {
			i.clock.ahead(time.Second)
			c := i.mutating()
			return c != nil && c.UID != before.UID
		})
	}
	i.eventuallyAsked()
	lease, err := i.cluster.Client.CoordinationV1().Leases(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil || lease.Labels["app.kubernetes.io/instance"] != name {
		t.Errorf("%v %v", lease.Labels, err)
	}
	// Stopping replicas removes nothing, and the next one begins at once.
	end := i.load()
	i.more()
	for _, r := range i.running() {
		i.start(i.clock, nil).ready()
		i.more()
		r.stop()
	}
	if asked := end(); asked < 100 {
		t.Errorf("asked %d times", asked)
	}
	if c := i.mutating(); c == nil {
		t.Error("the configuration is gone")
	}
}

// lastRetry is longer than replicas wait for anything that failed.
const lastRetry = 31 * time.Second

// With nobody to ask, requests fail or pass by failure policy; those of exempt namespaces always
// pass.
func TestFailurePolicy(t *testing.T) {
	for _, policy := range []admissionregistrationv1.FailurePolicyType{admissionregistrationv1.Fail,
		admissionregistrationv1.Ignore} {
		i := install(t, 1, 0, func(i *installation) {
			i.options.FailurePolicy = map[string]admissionregistrationv1.FailurePolicyType{
				alwayspullimages.Descriptor.Name: policy}
		})
		i.running()[0].stop()
		err := i.ask()
		if policy == admissionregistrationv1.Fail && (err == nil || !strings.Contains(err.Error(),
			`failed calling webhook "mutate.gatehouse.dev": failed to call webhook: Post "`+i.options.URL+"/mutate?")) {
			t.Error(err)
		}
		if policy == admissionregistrationv1.Ignore && (err == nil || err.Error() != "nobody was asked") {
			t.Error(err)
		}
		for _, exempt := range []string{"kube-system", namespace} {
			servertest.Retry(t, "the service account of "+exempt, func() error {
				if err := i.askIn(exempt); err == nil || err.Error() != "nobody was asked" {
					return fmt.Errorf("in %s: %v", exempt, err)
				}
				return nil
			})
		}
		i.start(i.clock, nil).ready()
		i.eventuallyAsked()
		i.running()[0].stop()
		i.remove()
	}
}

// A configuration, Lease or Secret of the same name that is somebody else's is an error that names
// it, and is left alone.
func TestSomebodyElses(t *testing.T) {
	ctx := t.Context()
	client := cluster().Client
	other := metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: map[string]string{
		"app.kubernetes.io/managed-by": "gatehouse-webhook", "app.kubernetes.io/instance": name,
		"gatehouse.dev/namespace": "elsewhere"}}
	if _, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: namespace}}, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	const why = `: metadata.labels[gatehouse.dev/namespace]: Invalid value: "elsewhere": must be "webhooks": it ` +
		"belongs to somebody else and is left as it is: delete it, or give this installation another name"
	clusterwide := other
	clusterwide.Namespace = ""
	for what, test := range map[string]struct{ create, remove func() error }{
		`mutatingwebhookconfigurations.admissionregistration.k8s.io "gatehouse"`: {func() error {
			_, err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(ctx,
				&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: clusterwide}, metav1.CreateOptions{})
			return err
		}, func() error {
			return client.AdmissionregistrationV1().MutatingWebhookConfigurations().Delete(ctx, name,
				metav1.DeleteOptions{})
		}},
		`validatingwebhookconfigurations.admissionregistration.k8s.io "gatehouse"`: {func() error {
			_, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx,
				&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: clusterwide},
				metav1.CreateOptions{})
			return err
		}, func() error {
			return client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(ctx, name,
				metav1.DeleteOptions{})
		}},
		`leases.coordination.k8s.io "gatehouse" in namespace "webhooks"`: {func() error {
			_, err := client.CoordinationV1().Leases(namespace).Create(ctx, &coordinationv1.Lease{ObjectMeta: other},
				metav1.CreateOptions{})
			return err
		}, func() error {
			return client.CoordinationV1().Leases(namespace).Delete(ctx, name, metav1.DeleteOptions{})
		}},
	} {
		if err := test.create(); err != nil {
			t.Fatal(err)
		}
		i := begin(t, 0, nil)
		r := i.start(i.clock, nil)
		if err := <-r.kept; err == nil || err.Error() != what+why {
			t.Errorf("got  %v\nwant %s", err, what+why)
		}
		r.stop()
		removed := registration.Remove(ctx, client, name, namespace, nil)
		if strings.HasPrefix(what, "leases") != (removed != nil) {
			t.Error(removed)
		}
		if err := test.remove(); err != nil { // it is still there
			t.Error(err)
		}
	}
	// Who puts one there later is left alone too.
	i := install(t, 1, 0, nil)
	configurations := client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	servertest.Retry(t, "theirs", func() error {
		c := i.mutating()
		c.Labels = nil
		c.Webhooks = nil
		_, err := configurations.Update(ctx, c, metav1.UpdateOptions{})
		return err
	})
	theirs := i.mutating()
	i.clock.ahead(lastRetry)
	i.running()[0].stop()
	if c := i.mutating(); c == nil || c.ResourceVersion != theirs.ResourceVersion {
		t.Errorf("it was written to: %v", c)
	}
	if err := configurations.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

// wantGone fails the test if something is left that replicas keep.
func (i *installation) wantGone() {
	i.t.Helper()
	_, err := i.cluster.Client.CoordinationV1().Leases(namespace).Get(i.t.Context(), name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) || i.mutating() != nil || i.secret() != nil {
		i.t.Errorf("it is still there, or again: %v, %v, %v", i.mutating(), i.secret(), err)
	}
}

// Nothing is removed while a replica runs that nobody ends. Without replicas all goes, and comes back when one is
// started.
func TestUninstall(t *testing.T) {
	i := install(t, 2, 0, nil)
	err := registration.Remove(t.Context(), i.cluster.Client, name, namespace, nil)
	if err == nil || !strings.Contains(err.Error(), `runs, and keeps the webhook configurations "gatehouse": end it`) {
		t.Errorf("while replicas run: %v", err)
	}
	i.eventuallyAsked()
	for _, r := range i.running() {
		r.stop()
	}
	if err := registration.Remove(t.Context(), i.cluster.Client, name, namespace, nil); err != nil {
		t.Fatal(err)
	}
	i.wantGone()
	i.eventuallyNotAsked()
	i.start(i.clock, nil).ready()
	i.eventuallyAsked()
}

// The replicas of a Deployment are ended. API servers don't call them while they end.
func TestUninstallDeployment(t *testing.T) {
	i := install(t, 2, 0, nil)
	client, ctx := i.cluster.Client, t.Context()
	labels := map[string]string{"app.kubernetes.io/name": "gatehouse", "app.kubernetes.io/instance": name}
	pod := servertest.Pod("replica")
	pod.Labels = labels
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	deployment.Spec = appsv1.DeploymentSpec{Replicas: new(int32(2)), Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod.Spec}}
	deployments, pods := client.AppsV1().Deployments(namespace), client.CoreV1().Pods(namespace)
	if _, err := deployments.Create(ctx, deployment, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := deployments.Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	removed := make(chan error, 1)
	go func() { removed <- registration.Remove(ctx, client, name, namespace, nil) }()
	servertest.Eventually(t, "no replicas to be wanted", func() bool {
		d, err := deployments.Get(ctx, name, metav1.GetOptions{})
		return err == nil && *d.Spec.Replicas == 0
	})
	for _, r := range i.running() {
		r.stop()
	}
	servertest.Eventually(t, "the configuration to go", func() bool { return i.mutating() == nil })
	select {
	case err := <-removed:
		t.Errorf("it doesn't wait for the pod: %v", err)
	default:
	}
	if err := pods.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		t.Fatal(err)
	}
	if err := <-removed; err != nil {
		t.Error(err)
	}
	i.wantGone()
}

// The namespace is made where there is none, and when it goes, the configurations go with it,
// before those who serve do.
func TestNamespace(t *testing.T) {
	t.Parallel()
	i := begin(t, 0, alone)
	namespaces := i.cluster.Client.CoreV1().Namespaces()
	gone := func() bool {
		_, err := namespaces.Get(t.Context(), namespace, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	}
	remove := func() {
		if err := namespaces.Delete(t.Context(), namespace, metav1.DeleteOptions{}); err != nil &&
			!apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
	}
	remove()
	servertest.Eventually(t, "the namespace to go", gone)
	r := i.start(i.clock, nil).ready()
	i.eventuallyAsked()
	made, err := namespaces.Get(t.Context(), namespace, metav1.GetOptions{})
	if err != nil || made.Labels["app.kubernetes.io/managed-by"] != "gatehouse-webhook" {
		t.Errorf("%v %v", made.Labels, err)
	}
	before := i.mutating()
	remove()
	// Replicas outside of the cluster make it again, with all that is in it.
	servertest.Retry(t, "another configuration", func() error {
		i.clock.ahead(time.Second)
		if c := i.mutating(); c == nil || c.UID == before.UID {
			return errors.New("it is the same, or none")
		}
		return i.ask()
	})
	// Where they have ended, that is the garbage collector's to do.
	r.stop()
	remove()
	servertest.Eventually(t, "the namespace to go", gone)
	servertest.Eventually(t, "the configuration to go", func() bool { return i.mutating() == nil })
}

// admitting is a plugin that refuses nothing.
type admitting struct{}

func (admitting) Validate(context.Context, admission.Attributes, admission.ObjectInterfaces) error {
	return nil
}

// A plugin that is asked about everything isn't asked about what would lock the cluster out, or
// can't matter.
func TestMatchConditions(t *testing.T) {
	asked := make(chan string, 1000)
	i := install(t, 1, 0, func(i *installation) {
		i.options.Plugins = append(i.options.Plugins, ownerreferencespermissionenforcement.Descriptor)
		i.options.Plugins[1].New = func(io.Reader, *plugin.Env) (plugin.Plugin, error) { return admitting{}, nil }
		i.options.ExemptNamespaces = []string{"kube-system"}
		i.seen = func(r *admissionv1.AdmissionRequest) {
			asked <- strings.TrimSpace(fmt.Sprint(r.Operation, " ", r.Resource.Resource, " ", r.Namespace))
		}
	})
	drained := func() map[string]bool {
		all := map[string]bool{}
		for {
			select {
			case request := <-asked:
				all[request] = true
			default:
				return all
			}
		}
	}
	ctx, where := t.Context(), i.cluster.Namespace(t, nil)
	client := i.cluster.Client
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "a-"}}
	servertest.Eventually(t, "the validating webhook to be called", func() bool {
		if _, err := client.CoreV1().ConfigMaps(where).Create(ctx, configMap, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		return drained()["CREATE configmaps "+where]
	})
	lease, err := client.CoordinationV1().Leases(where).Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Name: "a"}}, metav1.CreateOptions{})
	if err == nil {
		lease.Spec.HolderIdentity = new("a")
		_, err = client.CoordinationV1().Leases(where).Update(ctx, lease, metav1.UpdateOptions{})
	}
	if err == nil {
		_, err = client.CoreV1().Events(where).Create(ctx, &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "a"},
			InvolvedObject: corev1.ObjectReference{Namespace: where}}, metav1.CreateOptions{})
	}
	if err == nil {
		_, err = client.CoreV1().ConfigMaps(where).Create(ctx, configMap, metav1.CreateOptions{})
	}
	if err == nil {
		_, err = client.CoreV1().ConfigMaps("kube-system").Create(ctx, configMap,
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	}
	if err == nil { // in no namespace
		_, err = client.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{
			GenerateName: "a-"}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	}
	if err == nil {
		err = client.CoreV1().Namespaces().Delete(ctx, where, metav1.DeleteOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	all := drained()
	for request, want := range map[string]bool{
		"CREATE leases " + where:        false,
		"UPDATE leases " + where:        false,
		"CREATE events " + where:        false,
		"CREATE configmaps " + where:    true,
		"CREATE configmaps kube-system": false,
		"CREATE clusterroles":           true,
	} {
		if all[request] != want {
			t.Errorf("%s: asked: %t, want %t: %v", request, all[request], want, all)
		}
	}
	for request := range all {
		if strings.Contains(request, "reviews") || strings.Contains(request, "UPDATE leases") ||
			strings.Contains(request, "webhookconfigurations") || strings.HasSuffix(request, "secrets "+namespace) {
			t.Errorf("asked about %s", request)
		}
	}
}

// API servers accept the configurations of whichever plugins, and store them as they are, so that
// nothing is to be repaired.
func TestAccepted(t *testing.T) {
	var outside []plugin.Descriptor
	for _, p := range compiled.Plugins {
		if p.Server.Only == "" {
			outside = append(outside, p)
		}
	}
	ignore := map[string]admissionregistrationv1.FailurePolicyType{}
	for n, p := range outside {
		if n%2 == 0 {
			ignore[p.Name] = admissionregistrationv1.Ignore
		}
	}
	dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	api := cluster().Client.AdmissionregistrationV1()
	for _, o := range []registration.Options{
		{URL: "https://example.com"},
		{URL: "https://[::1]:8443/base/", PerPlugin: true, User: `a"\b` + "\tü", ExemptNamespaces: []string{}},
		{Service: &registration.Service{Namespace: "a", Name: "b"}, FailurePolicy: ignore,
			Timeout: 30 * time.Second},
		{Service: &registration.Service{Namespace: "a", Name: "b", Port: 8443}, PerPlugin: true, FailurePolicy: ignore},
	} {
		o.Name, o.Namespace, o.Plugins = "test", namespace, outside
		if err := o.Validate(); err != nil {
			t.Fatal(err)
		}
		m, v := registration.Mutating(&o, nil), registration.Validating(&o, nil)
		storedM, err := api.MutatingWebhookConfigurations().Create(t.Context(), m, dryRun)
		if err != nil {
			t.Fatal(err)
		}
		storedV, err := api.ValidatingWebhookConfigurations().Create(t.Context(), v, dryRun)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(m.Webhooks, storedM.Webhooks) + cmp.Diff(v.Webhooks, storedV.Webhooks); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
}

// A Service is only pointed to when somebody is behind it.
func TestService(t *testing.T) {
	i := begin(t, 0, func(i *installation) {
		i.options.URL, i.options.Service = "", &registration.Service{Namespace: namespace, Name: "webhooks"}
	})
	r := i.start(i.clock, nil).ready()
	servertest.Eventually(t, "the replica to lead", func() bool {
		lease, err := i.cluster.Client.CoordinationV1().Leases(namespace).Get(t.Context(), name, metav1.GetOptions{})
		return err == nil && lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != ""
	})
	slices := i.cluster.Client.DiscoveryV1().EndpointSlices(namespace)
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: "webhooks",
		Labels: map[string]string{discoveryv1.LabelServiceName: "webhooks"}}, AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"},
			Conditions: discoveryv1.EndpointConditions{Ready: new(false)}}}}
	slice, err := slices.Create(t.Context(), slice, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := slices.Delete(context.Background(), slice.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	i.clock.ahead(lastRetry)
	if i.mutating() != nil {
		t.Error("a configuration points to nothing")
	}
	slice.Endpoints[0].Conditions.Ready = new(true)
	if _, err := slices.Update(t.Context(), slice, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	servertest.Eventually(t, "the configuration", func() bool { return i.mutating() != nil })
	r.stop()
}
