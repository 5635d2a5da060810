// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"go/ast"
	"go/token"
	"maps"
	"strings"
	"testing"

	kubectrlmgrconfig "k8s.io/kube-controller-manager/config/v1alpha1"
	daemonconfig "k8s.io/kubernetes/pkg/controller/daemon/config/v1alpha1"
	deploymentconfig "k8s.io/kubernetes/pkg/controller/deployment/config/v1alpha1"
	disruptionconfig "k8s.io/kubernetes/pkg/controller/disruption/config/v1alpha1"
	endpointsliceconfig "k8s.io/kubernetes/pkg/controller/endpointslice/config/v1alpha1"
	garbageconfig "k8s.io/kubernetes/pkg/controller/garbagecollector/config/v1alpha1"
	namespaceconfig "k8s.io/kubernetes/pkg/controller/namespace/config/v1alpha1"
	claimconfig "k8s.io/kubernetes/pkg/controller/resourceclaim/config/v1alpha1"

	"gatehouse.dev/internal/kubesource"
)

const managerSource = "k8s.io/kubernetes/cmd/kube-controller-manager/app"

// The numbers are those of kube-controller-manager's flags and source.
func TestDefaults(t *testing.T) {
	var deployment kubectrlmgrconfig.DeploymentControllerConfiguration
	deploymentconfig.RecommendedDefaultDeploymentControllerConfiguration(&deployment)
	var daemon kubectrlmgrconfig.DaemonSetControllerConfiguration
	daemonconfig.RecommendedDefaultDaemonSetControllerConfiguration(&daemon)
	var endpoints kubectrlmgrconfig.EndpointSliceControllerConfiguration
	endpointsliceconfig.RecommendedDefaultEndpointSliceControllerConfiguration(&endpoints)
	var namespace kubectrlmgrconfig.NamespaceControllerConfiguration
	namespaceconfig.RecommendedDefaultNamespaceControllerConfiguration(&namespace)
	var disruption kubectrlmgrconfig.DisruptionControllerConfiguration
	disruptionconfig.RecommendedDefaultDisruptionControllerConfiguration(&disruption)
	var claims kubectrlmgrconfig.ResourceClaimControllerConfiguration
	claimconfig.RecommendedDefaultResourceClaimControllerConfiguration(&claims)
	var garbage kubectrlmgrconfig.GarbageCollectorControllerConfiguration
	garbageconfig.RecommendedDefaultGarbageCollectorControllerConfiguration(&garbage)

	backoff := kubesource.Parse(t, managerSource+"/apps.go").Calls("flowcontrol.NewBackOff")[0]
	podGC := kubesource.Parse(t, "k8s.io/kubernetes/pkg/controller/podgc/gc_controller.go")
	for name, pair := range map[string][2]int64{
		"workers":           {workers, int64(deployment.ConcurrentDeploymentSyncs)},
		"daemonSetWorkers":  {daemonSetWorkers, int64(daemon.ConcurrentDaemonSetSyncs)},
		"disruptionWorkers": {disruptionWorkers, int64(disruption.ConcurrentDisruptionSyncs)},
		"claimWorkers":      {claimWorkers, int64(claims.ConcurrentSyncs)},
		"endpointsPerSlice": {endpointsPerSlice, int64(endpoints.MaxEndpointsPerSlice)},
		"daemonFirstRetry":  {int64(daemonFirstRetry), kubesource.Number(backoff.Args[0])},
		"daemonLastRetry":   {int64(daemonLastRetry), kubesource.Number(backoff.Args[1])},
		"namespaceWorkers":  {namespaceWorkers, int64(namespace.ConcurrentNamespaceSyncs)},
		"namespaceResync":   {int64(namespaceResync), int64(namespace.NamespaceSyncPeriod.Duration)},
		"garbageWorkers":    {garbageWorkers, int64(garbage.ConcurrentGCSyncs)},
		"podCheck":          {int64(podCheck), kubesource.Number(podGC.Value("gcCheckPeriod"))},
		"nodeQuarantine":    {int64(nodeQuarantine), kubesource.Number(podGC.Value("quarantineTime"))},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s is %d, upstream's is %d", name, pair[0], pair[1])
		}
	}
}

// Each controller has the service account that it has in kube-controller-manager, so Kubernetes' default
// roles grant it what it needs.
func TestServiceAccounts(t *testing.T) {
	theirs := map[string]string{} // by the controller's name as it is written
	constructors := map[string]*ast.BlockStmt{}
	for _, file := range kubesource.ParseAll(t, managerSource) {
		maps.Copy(constructors, file.Funcs())
	}
	for _, body := range constructors {
		ast.Inspect(body, func(n ast.Node) bool {
			if literal, ok := n.(*ast.CompositeLit); ok && kubesource.Text(literal.Type) == "ControllerDescriptor" {
				fields := kubesource.Pairs(literal)
				account := accountIn(constructors[fields["constructor"]])
				if account == "controllerName" {
					account = fields["name"]
				}
				theirs[fields["name"]] = account
			}
			return true
		})
	}
	builders := map[string]*ast.BlockStmt{}
	for _, file := range kubesource.ParseAll(t, ".") {
		maps.Copy(builders, file.Funcs())
	}
	found := 0
	for file, list := range map[string]string{"list.go": "all", "workloads.go": "workloads"} {
		for _, entry := range kubesource.Parse(t, file).Value(list).(*ast.CompositeLit).Elts {
			fields := kubesource.Elements(entry.(*ast.CompositeLit))
			want := theirs[fields[0]]
			if got := accountIn(builders[fields[1]]); got != want || want == "" {
				t.Errorf("%s has the service account %q, upstream's has %q", fields[0], got, want)
			}
			found++
		}
	}
	if found != len(all)+len(workloads) {
		t.Errorf("found %d controllers of %d", found, len(all)+len(workloads))
	}
}

// accountIn returns the service account whose client a function asks for: the first argument of the first
// such call.
func accountIn(body *ast.BlockStmt) (account string) {
	if body == nil {
		return ""
	}
	constants := map[string]string{}
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ValueSpec:
			if len(n.Values) == 1 {
				constants[n.Names[0].Name] = kubesource.Text(n.Values[0])
			}
		case *ast.CallExpr:
			called := kubesource.Text(n.Fun)
			switch method := called[strings.LastIndex(called, ".")+1:]; method {
			case "NewClient", "NewClientConfig", "ClientOrDie", "clientConfig", "seeingAll", "clients", "podClients":
				if account == "" && len(n.Args) == 1 {
					account = kubesource.Text(n.Args[0])
				}
			}
		}
		return true
	})
	if value, ok := constants[account]; ok && token.IsIdentifier(account) {
		return value
	}
	return account
}
