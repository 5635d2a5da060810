// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"gatehouse.dev/cmd/gatehouse/compiled"
	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/internal/review/live"
	"gatehouse.dev/review"
	"gatehouse.dev/server"
	"gatehouse.dev/test/servertest"
)

// documented is the ClusterRole that the document has.
func documented(t *testing.T) *rbacv1.ClusterRole {
	t.Helper()
	data, err := os.ReadFile("../../docs/review.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range strings.Split(string(data), "```") {
		if text, ok := strings.CutPrefix(block, "yaml\n"); ok && strings.Contains(text, "kind: ClusterRole\n") {
			role := &rbacv1.ClusterRole{}
			if err := yaml.UnmarshalStrict([]byte(text), role); err != nil {
				t.Fatal(err)
			}
			return role
		}
	}
	t.Fatal("no ClusterRole is documented")
	return nil
}

// The documented ClusterRole has every right that a snapshot and a review take, and no other. With
// it, and the right to read what the manifests are about, nothing is left unread.
func TestDocumentedRights(t *testing.T) {
	role := documented(t)
	var mu sync.Mutex
	asked := sets.New[string]()
	config := rest.CopyConfig(cluster().Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			resolver := request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"),
				GrouplessAPIPrefixes: sets.NewString("api")}
			info, err := resolver.NewRequestInfo(r)
			if err == nil && info.IsResourceRequest {
				mu.Lock()
				asked.Insert(info.Verb + " " + info.Resource + "." + info.APIGroup)
				mu.Unlock()
			}
			return next.RoundTrip(r)
		})
	})
	connected, err := live.Connect(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := review.Snapshot(t.Context(), review.Options{Config: server.NewConfig(compiled.Plugins), Live: connected},
		nil); err != nil {
		t.Fatal(err)
	}
	r, err := review.Start(t.Context(), review.Options{Config: server.NewConfig(compiled.Plugins), Live: connected})
	if err != nil {
		t.Fatal(err)
	}
	documents, errs := input.Read([]string{"-"}, strings.NewReader(
		"kind: Limit\napiVersion: example.com/v1\nmetadata: {name: none, namespace: shop}\n"))
	if errs != nil {
		t.Fatal(errs)
	}
	if _, err := r.Review(t.Context(), documents, nil); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	given := sets.New[string]("get limits.example.com", "list limits.example.com") // the manifest's, and the params
	for _, rule := range role.Rules {
		for _, verb := range rule.Verbs {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					given.Insert(verb + " " + resource + "." + group)
				}
			}
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(asked)), slices.Sorted(maps.Keys(given))); diff != "" {
		t.Errorf("-asked for +documented:\n%s", diff)
	}

	c := cluster()
	for _, create := range []func() error{
		func() error {
			_, err := c.Client.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{})
			return err
		},
		func() error {
			_, err := c.Client.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
				ObjectMeta: metav1.ObjectMeta{Name: "limits"},
				Rules: []rbacv1.PolicyRule{{Verbs: []string{"get", "list"}, APIGroups: []string{"example.com"},
					Resources: []string{"limits"}}}}, metav1.CreateOptions{})
			return err
		},
		bind(t, c, role.Name), bind(t, c, "limits"), bind(t, c, "view"),
	} {
		if err := create(); err != nil {
			t.Fatal(err)
		}
	}
	at := "--kubeconfig=" + kubeconfig(t, "reviewer")
	servertest.Eventually(t, "the rights are known", func() bool {
		_, stderr, _ := run(t, "snapshot", at)
		return stderr == ""
	})
	stdout, _, _ := run(t, "review", at, "--filename="+manifests)
	const unread = "secrets s in namespace shop: there is no right to read it: judged as if it weren't there"
	want, _, _ := strings.Cut(strings.Replace(wanted, "admitted  Secret shop/s                     "+
		"testdata/input.yaml:21\n", "failed    Secret shop/s                     testdata/input.yaml:21\n          "+
		"the cluster is known in part only: "+unread+"; with --allow-incomplete it is admitted\n", 1), "note: ")
	got, notes, _ := strings.Cut(settled(stdout), "note: ")
	if diff := cmp.Diff(want, got); diff != "" || !strings.HasPrefix(notes, unread) ||
		strings.Contains(notes, "note: ") {
		t.Errorf("-want +got:\n%s%s", diff, notes)
	}
}

// bind has a role bound to the reviewer.
func bind(t *testing.T, c *servertest.Cluster, role string) func() error {
	return func() error {
		_, err := c.Client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "reviewer-" + role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "reviewer"}},
		}, metav1.CreateOptions{})
		return err
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
