// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// deletion is a request by which a pod is deleted, which is in the state, or is what the request
// says it was.
func deletion(name, old string) string {
	return `
kind: AdmissionReview
apiVersion: admission.k8s.io/v1
request:
  uid: 705ab4f5-6393-11e8-b7cc-42010a800002
  operation: DELETE
  kind: {group: "", version: v1, kind: Pod}
  resource: {group: "", version: v1, resource: pods}
  name: ` + name + `
  namespace: shop
  userInfo: {username: eve}
` + old
}

// Where a pod is deleted a quota gets back what that used, and nothing of what others use that
// only its status tells of: those that are not among the state's objects stay. It is so each time.
func TestStatedUsage(t *testing.T) {
	pod := func(name string) string {
		return "kind: Pod\napiVersion: v1\nmetadata: {name: " + name + ", namespace: shop}\n" +
			"spec: {containers: [{name: c, image: i, resources: {requests: {cpu: '1'}}}]}\n"
	}
	const quota = `
kind: ResourceQuota
apiVersion: v1
metadata: {name: q, namespace: shop}
spec: {hard: {pods: '5', requests.cpu: '9'}}
status: {hard: {pods: '5', requests.cpu: '9'}, used: {pods: '5', requests.cpu: '7'}}
`
	const full = `pods "two" is forbidden: exceeded quota: q, requested: pods=1, used: pods=5, limited: pods=5`
	scheduled := strings.Replace(pod("kept"), "{containers", "{nodeName: node, containers", 1)
	r := started(t, shop, quota, pod("here"), scheduled)
	mark, err := r.Mark(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wider := strings.Replace(quota, "{pods: '5', ", "{pods: '5', services: '1', ", 1)
	wider = wider[:strings.Index(wider, "status:")]
	for name, test := range map[string]struct {
		input []string
		want  []string
	}{
		"of the state": {[]string{deletion("here", ""), pod("one"), pod("two")}, []string{"", "", full}},
		"of the request": {[]string{deletion("old", "  oldObject: {kind: Pod, apiVersion: v1, metadata: {name: old, "+
			"namespace: shop}, spec: {containers: [{name: c, image: i}]}}\n"), pod("one"), pod("two")},
			[]string{"", "", full}},
		"on a node, which has yet to end it": {[]string{deletion("kept", ""), pod("two")}, []string{"", full}},
		"and the quota limits more": {[]string{wider, deletion("here", ""), pod("one"), pod("two")},
			[]string{"", "", "", full}},
		"and what is new goes again": {[]string{deletion("here", ""), pod("one"), deletion("one", ""),
			strings.Replace(pod("one"), "name: one", "name: three", 1), pod("two")}, []string{"", "", "", "", full}},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				done, err := r.Review(t.Context(), documents(t, test.input...), nil)
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, result := range done.Results {
					got = append(got, result.Message)
				}
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
				if err := r.Restore(t.Context(), mark); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// A quota that limits what the cluster doesn't tell the usage of is noted, be it in the cluster's
// state or new; one in a namespace that is new isn't, since there is nothing else in that.
func TestUncounted(t *testing.T) {
	const snapshot = "apiVersion: gatehouse.dev/v1alpha1\nkind: Snapshot\nversion: v1.37.2\n"
	quota := func(name, namespace, hard, used string) string {
		return "kind: ResourceQuota\napiVersion: v1\nmetadata: {name: " + name + ", namespace: " + namespace +
			"}\nspec: {hard: {" + hard + "}}\nstatus: {hard: {" + hard + "}, used: {" + used + "}}\n"
	}
	fresh := strings.ReplaceAll(shop, "shop", "fresh")
	got := judged(t, []string{snapshot, shop, quota("known", "shop", "pods: '5'", "pods: '3'"),
		quota("part", "shop", "pods: '5', services: '2'", "pods: '3'")},
		[]string{fresh, quota("new", "fresh", "pods: '1'", ""), quota("more", "shop", "pods: '1'", ""),
			quota("known", "shop", "pods: '6'", "")}, nil)
	const want = `admitted  Namespace fresh           -:1
admitted  ResourceQuota fresh/new   -:5
admitted  ResourceQuota shop/more   -:11
admitted  ResourceQuota shop/known  -:17
note: ResourceQuota part in namespace shop: the cluster doesn't say what is used of services: judged as if it were ` +
		`nothing but what is read and reviewed here
note: ResourceQuota more in namespace shop: the cluster doesn't say what is used of pods: judged as if it were ` +
		`nothing but what is read and reviewed here
4 admitted, 0 refused, 0 failed
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
