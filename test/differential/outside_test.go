// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/chain/config"
	"gatehouse.dev/cmd/gatehouse/compiled"
	"gatehouse.dev/plugin"
	"gatehouse.dev/remote/manifests"
	"gatehouse.dev/test/differential/pair"
	"gatehouse.dev/test/peers"
)

// An outsideGroup is plugins that run beside a kube-apiserver, and the requests that are sent
// there.
type outsideGroup struct {
	name string
	// enable has the plugins to enable besides those that are on by default.
	enable        []string
	configuration string
	// flags are for both API servers; if there is a cluster, for Gatehouse alone.
	flags []string
	// cluster is the kube-apiserver, if it is of another version than Gatehouse.
	cluster *cluster
	// probe is sent until its answer shows that the plugins are in force.
	probe    request
	requests []request
	// compareMore compares something else, if not nil.
	compareMore func(ctx context.Context, t *testing.T, servers serverPair)
}

// compareOutside sends requests to `gatehouse serve` with plugins compiled in, and to a
// kube-apiserver without them that has `gatehouse webhook` beside it. Answers and stored objects
// must be equal, except for the differences in docs/webhook-mode.md. Each plugin that can run
// outside has to do something there. The other comparisons show that `gatehouse serve` is like a
// kube-apiserver with the plugins.
func compareOutside(ctx context.Context, t *testing.T, bin string) {
	documented := pair.Words(t, "../../docs/webhook-mode.md")
	did := map[string]bool{"AlwaysAdmit": true} // which never does anything
	groups, compared := outsideGroups(t), 0
	for _, o := range groups {
		t.Run(o.name, func(t *testing.T) {
			o.compare(ctx, t, bin, documented, did)
			compared++
		})
	}
	if compared < len(groups) {
		return // one was asked for, or has failed
	}
	for _, d := range compiled.Plugins {
		idle := strings.Contains(documented, d.Name+" can run outside and finds nothing to do there")
		if d.Server.Only == "" && did[d.Name] == idle {
			t.Errorf("%s has refused or changed something outside: %t, want %t", d.Name, did[d.Name], !idle)
		}
	}
}

// selected returns the plugins that run outside, the plugins that kube-apiserver runs itself, and
// all of them.
func (o *outsideGroup) selected(t *testing.T) (out []plugin.Descriptor, inside, all []string) {
	t.Helper()
	options := config.Options{Enable: o.enable}
	list, err := options.Select(compiled.Plugins)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range list {
		switch {
		case d.Server.Only != "":
			inside = append(inside, d.Name)
		default:
			out = append(out, d)
		}
		all = append(all, d.Name)
	}
	return out, inside, all
}

func (o *outsideGroup) runKubeAPIServer(ctx context.Context, s *peers.Server, plugins []string) error {
	if o.cluster != nil {
		return o.cluster.run(ctx, s, plugins)
	}
	return s.RunKubeAPIServer(ctx, plugins, o.flags...)
}

// compare adds the plugins that have done something outside to did.
func (o *outsideGroup) compare(ctx context.Context, t *testing.T, bin, documented string, did map[string]bool) {
	out, inside, all := o.selected(t)
	var flags []string
	if o.configuration != "" {
		file := filepath.Join(t.TempDir(), "admission.yaml")
		if err := os.WriteFile(file, []byte(o.configuration), 0o600); err != nil {
			t.Fatal(err)
		}
		flags = append(flags, "--admission-control-config-file="+file)
	}
	decisions := filepath.Join(t.TempDir(), "decisions.log")
	ours := startServer(ctx, t, bin, func(ctx context.Context, s *peers.Server) error {
		if err := o.runKubeAPIServer(ctx, s, inside); err != nil {
			return err
		}
		return runWebhook(ctx, t, s, out, append(flags, "--decision-log-path="+decisions)...)
	})
	theirs := startServer(ctx, t, bin, func(ctx context.Context, s *peers.Server) error {
		return s.RunGatehouse(ctx, slices.Concat(flags, o.flags, []string{"--controllers=",
			"--admission-control=" + strings.Join(all, ",")})...)
	})

	ours.awaitAnswer(ctx, t, o.probe)
	different, denied := 0, 0
	for i, r := range o.requests {
		got, want := ours.awaitAnswer(ctx, t, r), theirs.awaitAnswer(ctx, t, r)
		if denialPrefix.MatchString(got) {
			got, denied = denialPrefix.ReplaceAllString(got, ""), denied+1
		}
		differs := outsideDifference(r)
		switch {
		case differs != "" && got == want:
			t.Errorf("request %d, %s: outside it is as compiled in, other than expected: %s", i, r, differs)
		case differs != "" && !strings.Contains(documented, differs):
			t.Errorf("request %d, %s: docs/webhook-mode.md doesn't say: %s", i, r, differs)
		case differs == "" && got != want && !o.cluster.excuses(want):
			different++
			t.Errorf("request %d, %s:\noutside\n%s\ncompiled in\n%s", i, r, got, want)
		}
	}
	if denied == 0 {
		t.Error("the plugins outside have refused nothing")
	}
	t.Logf("%d plugins, %d requests, %d refused by plugins outside, %d answered differently for no reason that is "+
		"documented", len(out), len(o.requests), denied, different)
	if o.compareMore != nil {
		o.compareMore(ctx, t, serverPair{ours, theirs})
	}
	log, err := os.ReadFile(decisions)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(log)) {
		var d v1alpha1.Decision
		if err := json.Unmarshal([]byte(line), &d); err != nil && strings.HasSuffix(line, "\n") {
			t.Errorf("%v: %s", err, line)
		}
		did[d.By] = true
		for _, plugin := range d.ChangedBy {
			did[plugin] = true
		}
	}
}

// denialPrefix is what an API server puts before a webhook's message.
var denialPrefix = regexp.MustCompile(`admission webhook \\"(mutate|validate)\.gatehouse\.dev\\" denied the request: `)

// outsideDifference returns the words of docs/webhook-mode.md for a request whose answers differ,
// or "".
func outsideDifference(r request) string {
	switch {
	case strings.Contains(r.difference, "new quota"):
		return "knows what a new quota's namespace uses when a controller has counted it"
	case strings.HasPrefix(r.body, "{kind: PodPreset,"):
		return "PodPresets are custom resources"
	}
	return ""
}

// runWebhook starts `gatehouse webhook` beside the server, with only the rights that an
// installation gives it.
func runWebhook(ctx context.Context, t *testing.T, s *peers.Server, list []plugin.Descriptor, flags ...string) error {
	o := &manifests.Options{Name: "gatehouse", Namespace: "gatehouse-system", Image: "none", Replicas: 1, Plugins: list}
	token, err := install(ctx, s.Config, o)
	if err != nil {
		return err
	}
	file, err := s.WriteKubeconfig("webhook.kubeconfig", &clientcmdapi.AuthInfo{Token: token})
	if err != nil {
		return err
	}
	port, err := peers.FreePort()
	if err != nil {
		return err
	}
	var names []string
	for _, d := range list {
		names = append(names, d.Name)
	}
	p, err := s.Exec(peers.GatehouseWebhook, append(flags, "--kubeconfig="+file, "--plugins="+strings.Join(names, ","),
		"--bind-address=127.0.0.1", "--secure-port="+port, "--url=https://127.0.0.1:"+port,
		"--shutdown-delay-duration=0s", "--timeout=30s")...)
	if err != nil {
		return err
	}
	// A right that the role lacks shows in the log alone: a cache is not filled.
	t.Cleanup(func() {
		if log, err := os.ReadFile(p.Log); err != nil || strings.Contains(string(log), "forbidden:") {
			t.Errorf("the webhook lacks rights: %v\n%s", err, log)
		} else if t.Failed() {
			t.Logf("the webhook says\n%s", log)
		}
	})
	return p.AwaitOK(ctx, "https://127.0.0.1:"+port+"/readyz")
}

// install creates the objects of an installation, except those that run in pods. It returns a token
// of its service account.
func install(ctx context.Context, config *rest.Config, o *manifests.Options) (token string, err error) {
	objects, err := manifests.Objects(o)
	if err != nil {
		return "", err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return "", err
	}
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", err
	}
	for _, object := range objects {
		resource, ok := installedResources[object.GetKind()]
		if !ok {
			continue
		}
		if err := createObject(ctx, client.Resource(resource), object); err != nil {
			return "", fmt.Errorf("%s: %w", object.GetKind(), err)
		}
	}
	review, err := typed.CoreV1().ServiceAccounts(o.Namespace).CreateToken(ctx, o.Name,
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return review.Status.Token, nil
}

func createObject(ctx context.Context, client dynamic.NamespaceableResourceInterface, u *unstructured.Unstructured) error {
	var in dynamic.ResourceInterface = client
	if u.GetNamespace() != "" {
		in = client.Namespace(u.GetNamespace())
	}
	_, err := in.Create(ctx, u, metav1.CreateOptions{})
	return err
}

// installedResources are the resources of the objects that install creates.
var installedResources = map[string]schema.GroupVersionResource{
	"Namespace":                {Version: "v1", Resource: "namespaces"},
	"ServiceAccount":           {Version: "v1", Resource: "serviceaccounts"},
	"ClusterRole":              {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"},
	"ClusterRoleBinding":       {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"},
	"Role":                     {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
	"RoleBinding":              {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
	"CustomResourceDefinition": {Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
}
