// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	serviceRange = schema.GroupKind{Group: "networking.k8s.io", Kind: "ServiceCIDR"}
	ipAddress    = schema.GroupKind{Group: "networking.k8s.io", Kind: "IPAddress"}
)

// createStated creates an object of the state. If the server has no range with the IPs of a Service,
// it creates the Service without them, and then allocates them to it.
func (r *Reviewer) createStated(ctx context.Context, c call) (*answer, error) {
	a, err := r.cluster.do(ctx, c)
	ips := clusterIPs(c.body)
	if err != nil || a.code != http.StatusUnprocessableEntity || len(ips) == 0 ||
		strings.Contains(a.message(), "already allocated") {
		return a, err
	}
	c.body = c.body.DeepCopy()
	for _, path := range fieldsSetOnCreate[service.GroupKind()] {
		unstructured.RemoveNestedField(c.body.Object, path...)
	}
	without, err := r.cluster.do(ctx, c)
	if err != nil || !without.ok() {
		return a, err // the IPs aren't all that is wrong
	}
	for _, ip := range clusterIPs(without.object) {
		if err := r.release(ctx, ip); err != nil {
			return nil, err
		}
	}
	for _, ip := range ips {
		if err := r.allocate(ctx, ip, c.body); err != nil {
			return nil, err
		}
	}
	return without, nil
}

// clusterIPs returns the IPs of a Service, or none for another object.
func clusterIPs(object *unstructured.Unstructured) []netip.Addr {
	if object.GroupVersionKind().GroupKind() != service.GroupKind() {
		return nil
	}
	one, _, _ := unstructured.NestedString(object.Object, "spec", "clusterIP")
	all, _, _ := unstructured.NestedStringSlice(object.Object, "spec", "clusterIPs")
	if len(all) == 0 {
		all = []string{one}
	}
	var ips []netip.Addr
	for _, text := range all {
		if ip, err := netip.ParseAddr(text); err == nil { // it may be "None" or empty
			ips = append(ips, ip)
		}
	}
	return ips
}

// address returns the IPAddress object of an IP. A server takes an IP with such an object as used.
func address(ip netip.Addr) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(networkingv1.SchemeGroupVersion.WithKind(ipAddress.Kind))
	object.SetName(ip.String())
	return object
}

// release frees an IP.
func (r *Reviewer) release(ctx context.Context, ip netip.Addr) error {
	object := address(ip)
	mapping, err := r.cluster.findKind(object)
	if err != nil {
		return err
	}
	a, err := r.cluster.do(ctx, call{verb: http.MethodDelete, resource: *mapping, name: object.GetName(), as: admin,
		state: true})
	if err == nil && !a.ok() && a.code != http.StatusNotFound {
		err = fmt.Errorf("release of the IP %s: %s", ip, a.message())
	}
	return err
}

// allocate gives a Service an IP, as the server does with IPs of its ranges.
func (r *Reviewer) allocate(ctx context.Context, ip netip.Addr, of *unstructured.Unstructured) error {
	object := address(ip)
	mapping, err := r.cluster.findKind(object)
	if err != nil {
		return err
	}
	family := "IPv4"
	if ip.Is6() {
		family = "IPv6"
	}
	// It doesn't have the label of the allocator's own IPs: the server's repair removes those as long
	// as it doesn't know that the Service has them.
	object.SetLabels(map[string]string{networkingv1.LabelIPAddressFamily: family})
	object.Object["spec"] = map[string]any{"parentRef": map[string]any{"resource": "services",
		"namespace": r.namespaceOf(of), "name": of.GetName()}}
	a, err := r.cluster.do(ctx, call{verb: http.MethodPost, resource: *mapping, body: object, as: admin, state: true})
	if err == nil && !a.ok() {
		err = fmt.Errorf("spec.clusterIPs: %s is taken: %s", ip, a.message())
	}
	return err
}

// openRange makes a ServiceCIDR ready, as its controller does, and waits until services get IPs of
// it. If the state says that it isn't ready, or is being deleted, it stays so.
func (r *Reviewer) openRange(ctx context.Context, object *unstructured.Unstructured) error {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	ready := len(conditions) == 0
	for _, condition := range conditions {
		fields, _ := condition.(map[string]any)
		ready = ready || fields["type"] == networkingv1.ServiceCIDRConditionReady && fields["status"] == "True"
	}
	if !ready || object.GetDeletionTimestamp() != nil {
		return nil
	}
	mapping, err := r.cluster.findKind(object)
	if err != nil {
		return err
	}
	if len(conditions) == 0 {
		status := map[string]any{"conditions": []any{map[string]any{
			"type": networkingv1.ServiceCIDRConditionReady, "status": string(metav1.ConditionTrue), "reason": "",
			"message":            "Kubernetes Service CIDR is ready",
			"lastTransitionTime": metav1.Now().UTC().Format(time.RFC3339)}}}
		if _, err := r.loadStatus(ctx, mapping, "", object.DeepCopy(), status); err != nil {
			return err
		}
	}
	ranges, _, _ := unstructured.NestedStringSlice(object.Object, "spec", "cidrs")
	for _, text := range ranges {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return err
		}
		if err := r.awaitRange(ctx, prefix); err != nil {
			return err
		}
	}
	return nil
}

// rangeNotReady are parts of a server's messages about an IP whose range it doesn't know yet.
//
// Source: k8s.io/kubernetes/pkg/registry/core/service/ipallocator 5d6ea0f0
var rangeNotReady = []string{"does not match the current range", "allocator not ready"}

// awaitRange waits until services get IPs of a range. It creates a Service with one, as a dry run.
func (r *Reviewer) awaitRange(ctx context.Context, prefix netip.Prefix) error {
	ctx, cancel := context.WithTimeout(ctx, resourceTimeout)
	defer cancel()
	probe := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"generateName": "range-"},
		"spec": map[string]any{"clusterIP": prefix.Masked().Addr().Next().String(),
			"ports": []any{map[string]any{"port": int64(1)}}}}}
	probe.SetGroupVersionKind(service)
	mapping, err := r.cluster.findKind(probe)
	if err != nil {
		return err
	}
	for {
		a, err := r.cluster.do(ctx, call{verb: http.MethodPost, resource: *mapping, namespace: "default", body: probe,
			as: admin, state: true, query: url.Values{"dryRun": {metav1.DryRunAll}}})
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(rangeNotReady, func(part string) bool { return strings.Contains(a.message(), part) }) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no service gets an IP of %s after %s", prefix, resourceTimeout)
		case <-time.After(resourcePoll):
		}
	}
}
