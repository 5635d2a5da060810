// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"go/ast"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	kubeapiserver "k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	schedulingrest "k8s.io/kubernetes/pkg/registry/scheduling/rest"

	"gatehouse.dev/internal/kubesource"
)

func TestDurations(t *testing.T) {
	config := kubesource.Parse(t, "k8s.io/kubernetes/pkg/controlplane/apiserver/config.go")
	options := kubesource.Parse(t, "k8s.io/kubernetes/pkg/controlplane/apiserver/options/options.go")
	tokens := kubesource.Parse(t, "k8s.io/kubernetes/pkg/registry/core/serviceaccount/storage/token.go")
	for name, test := range map[string]struct {
		got  time.Duration
		want ast.Expr
	}{
		"InformerResync": {InformerResync,
			config.Calls("clientgoinformers.NewSharedInformerFactoryWithOptions")[0].Args[1]},
		"ServiceRepairInterval": {ServiceRepairInterval,
			kubesource.Parse(t, "k8s.io/kubernetes/pkg/controlplane/instance.go").Value("repairLoopInterval")},
		"KeepAlivePeriod": {KeepAlivePeriod,
			kubesource.Parse(t, "k8s.io/apiserver/pkg/server/secure_serving.go").Value("defaultKeepAlivePeriod")},
		"SignerKeysTimeout":   {SignerKeysTimeout, options.Calls("plugin.New")[0].Args[3]},
		"SignerLimitsTimeout": {SignerLimitsTimeout, options.Calls("context.WithTimeout")[0].Args[1]},
		"WebhookTokenLifetime": {WebhookTokenLifetime / time.Second, // upstream's is in seconds
			tokens.Value("maxAdmissionReviewWebhookTokenExpirationSeconds")},
	} {
		if want := kubesource.Number(test.want); int64(test.got) != want {
			t.Errorf("%s is %v, upstream's is %s", name, test.got, kubesource.Text(test.want))
		}
	}
}

func TestLists(t *testing.T) {
	options := kubesource.Parse(t, "k8s.io/kubernetes/cmd/kube-apiserver/app/options/completion.go")
	longRunning := kubesource.Parse(t, "k8s.io/kubernetes/pkg/controlplane/apiserver/config.go").
		Calls("filters.BasicLongRunningRequestCheck")[0]
	validation := kubesource.Parse(t, "k8s.io/kubernetes/pkg/controlplane/apiserver/options/validation.go")
	var fairness []string
	ast.Inspect(validation.Func("validateAPIPriorityAndFairness"), func(n ast.Node) bool {
		if list, ok := n.(*ast.CompositeLit); ok && fairness == nil {
			fairness = kubesource.Strings(list)
		}
		return true
	})
	for name, test := range map[string]struct{ got, want []string }{
		"SystemNamespaces":        {SystemNamespaces, kubeapiserver.NewServerRunOptions().SystemNamespaces},
		"ServiceNames":            {ServiceNames, kubesource.Strings(options.Calls("s.Options.Complete")[0])},
		"LongRunningVerbs":        {LongRunningVerbs, kubesource.Strings(longRunning.Args[0])},
		"LongRunningSubresources": {LongRunningSubresources, kubesource.Strings(longRunning.Args[1])},
		"FairnessVersions":        {FairnessVersions, fairness},
	} {
		if !slices.Equal(test.got, test.want) {
			t.Errorf("%s are %q, upstream's are %q", name, test.got, test.want)
		}
	}
}

// TestObjects checks that the objects that package apiserver makes in a new cluster are the ones that
// Kubernetes' controllers make.
func TestObjects(t *testing.T) {
	const controllers = "k8s.io/kubernetes/pkg/controlplane/controller/"
	service := kubesource.Parse(t, controllers+"kubernetesservice/controller.go")
	labels := func(function *ast.BlockStmt) map[string]string {
		return kubesource.Pairs(kubesource.Fields(function, "Labels")[0])
	}
	got := labels(kubesource.Parse(t, "../bootstrap.go").Func("kubernetesServiceTask"))
	if want := labels(service.Func("CreateOrUpdateMasterServiceIfNeeded")); len(got) == 0 || !maps.Equal(got, want) {
		t.Errorf("the Service kubernetes has the labels %v, upstream's %v", got, want)
	}
	cidr := kubesource.Parse(t, controllers+"defaultservicecidr/default_servicecidr_controller.go")
	ours := kubesource.Parse(t, "../fill.go")
	if got, want := kubesource.Text(ours.Value("cidrController")), kubesource.Text(cidr.Value("controllerName")); got != want {
		t.Errorf("the controller of ServiceCIDRs is %s, upstream's %s", got, want)
	}
	message := kubesource.Strings(ours.Func("makeServiceCIDR"))[0]
	if !slices.Contains(kubesource.Strings(cidr.Func("syncStatus")), message) {
		t.Errorf("upstream's controller says nothing like %q", message)
	}
}

// missingHooks are the hooks of kube-apiserver's start and stop that package apiserver doesn't have.
var missingHooks = []string{
	// the proxy between servers of different versions isn't supported
	"local-discovery-cache-sync", "mixed-version-proxy-handler", "peer-discovery-workers",
	"peer-endpoint-reconciler-controller",
	// package apiserver calls the functions that add these
	"kube-apiserver-autoregistration",
}

// TestHooks compares the names of hooks, which clients read at /readyz and /livez, with those of
// kube-apiserver.
func TestHooks(t *testing.T) {
	theirs := hooks(t, "k8s.io/kubernetes/pkg/controlplane/instance.go",
		"k8s.io/kubernetes/pkg/controlplane/apiserver/server.go",
		"k8s.io/kubernetes/pkg/controlplane/apiserver/aggregator.go",
		"k8s.io/apiserver/pkg/server/options/admission.go")
	theirs[schedulingrest.PostStartHookName] = true
	ours := hooks(t, "../delegates.go", "../identity.go", "../former.go", "../server.go")
	for name := range theirs {
		if ours[name] == slices.Contains(missingHooks, name) {
			t.Errorf("hook %s: package apiserver has it: %t", name, ours[name])
		}
	}
	for name := range ours {
		if !theirs[name] && !strings.HasPrefix(name, "gatehouse/") {
			t.Errorf("kube-apiserver has no hook %s", name)
		}
	}
	for _, name := range missingHooks {
		if !theirs[name] {
			t.Errorf("kube-apiserver no longer has %s: remove it from missingHooks", name)
		}
	}
}

// hooks returns the names of hooks that files add: literals in calls, and those in the list that addHooks
// adds.
func hooks(t *testing.T, files ...string) map[string]bool {
	names := map[string]bool{}
	for _, name := range files {
		file := kubesource.Parse(t, name)
		for _, call := range file.Calls("") {
			method := kubesource.Text(call.Fun)
			method = strings.TrimSuffix(method[strings.LastIndex(method, ".")+1:], "OrDie")
			if method == "AddPostStartHook" || method == "AddPreShutdownHook" {
				if first, ok := call.Args[0].(*ast.BasicLit); ok {
					names[kubesource.Strings(first)[0]] = true
				}
			}
		}
		if filepath.Base(name) == "delegates.go" {
			for _, statement := range file.Func("addHooks").List {
				assign, _ := statement.(*ast.AssignStmt)
				if assign == nil {
					continue
				}
				list, _ := assign.Rhs[0].(*ast.CompositeLit)
				if list == nil {
					continue
				}
				for _, hook := range list.Elts {
					// The name of the hook that makes roles is upstream's constant.
					if name, ok := hook.(*ast.CompositeLit).Elts[0].(*ast.BasicLit); ok {
						names[kubesource.Strings(name)[0]] = true
					}
				}
			}
		}
	}
	if len(names) < 8 {
		t.Fatalf("%q add only %d hooks", files, len(names))
	}
	return names
}
