// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"strings"
	"testing"

	"gatehouse.dev/apis/decisions/v1alpha1"
)

const legacyVersions = "apps/v1beta1 apps/v1beta2 extensions/v1beta1"

// The workload versions that Kubernetes removed are views of what apps/v1 stores, for who asks for
// them by name.
func TestLegacyWorkloads(t *testing.T) {
	t.Parallel()
	k := newKubectl(t, serve(t, "--runtime-config="+strings.ReplaceAll(legacyVersions, " ", "=true,")+"=true"),
		"legacy")
	versions := k.ok("api-versions")
	for version := range strings.FieldsSeq(legacyVersions + " apps/v1") {
		if !strings.Contains("\n"+versions, "\n"+version+"\n") {
			t.Errorf("%s isn't served:\n%s", version, versions)
		}
	}
	k.says("api-resources --api-group=extensions --no-headers",
		"daemonsets ds extensions/v1beta1 true DaemonSet", "deployments deploy extensions/v1beta1 true Deployment",
		"replicasets rs extensions/v1beta1 true ReplicaSet")
	// what a client takes that names no version
	k.says("api-resources --api-group=apps --no-headers", "deployments deploy apps/v1 true Deployment")

	// extensions/v1beta1 defaulted the selector from the template's labels, and did not delete what
	// it doesn't know of.
	old := strings.NewReplacer("apps/v1", "extensions/v1beta1", "  selector: {matchLabels: {app: web}}\n",
		"").Replace(web)
	k.with(old).says("create -f -", "deployment.extensions/web created")
	k.has("deployments.v1.apps/web", "{.apiVersion} {.spec.selector.matchLabels.app} {.spec.replicas}", "apps/v1 web 2")
	uid := k.get("deployments.v1.apps/web", "{.metadata.uid}")
	for version := range strings.FieldsSeq(legacyVersions) {
		group, v, _ := strings.Cut(version, "/")
		object := "deployments." + v + "." + group + "/web"
		k.has(object, "{.apiVersion} {.metadata.uid}", version+" "+uid)
		k.says("label --overwrite "+object+" through="+v, "labeled")
	}
	k.with(strings.Replace(web, "name: web", "name: later", 1)).says("create -f -", "deployment.apps/later created")
	k.has("deployments.v1beta1.extensions/later", "{.apiVersion} {.spec.template.spec.containers[0].image}",
		"extensions/v1beta1 nginx:1")
	k.says("get deployments.v1beta1.extensions -o name", "deployment.extensions/web", "deployment.extensions/later")

	k.says("scale deployments.v1beta1.extensions web --replicas=6", "scaled")
	k.has("deployments.v1.apps/web", "{.spec.replicas}", "6")
	for version, scale := range map[string]string{
		"apps/v1": "autoscaling/v1", "apps/v1beta1": "apps/v1beta1", "apps/v1beta2": "apps/v1beta2",
		"extensions/v1beta1": "extensions/v1beta1",
	} {
		got := k.ok("get --raw /apis/" + version + "/namespaces/legacy/deployments/web/scale")
		says(t, got, `"kind":"Scale"`, `"apiVersion":"`+scale+`"`, `"replicas":6`)
	}
	k.says("scale deployments.v1beta2.apps web --replicas=5", "scaled")
	k.with(strings.NewReplacer("apps/v1", "extensions/v1beta1", "Deployment", "ReplicaSet", "name: web",
		"name: set").Replace(web)).says("create -f -", "replicaset.extensions/set created")
	k.says("scale replicasets.v1beta1.extensions set --replicas=4", "scaled")
	k.has("replicasets.v1.apps/set", "{.spec.replicas}", "4")
	k.says("explain deployment.spec.rollbackTo --api-version=extensions/v1beta1", "VERSION: v1beta1", "rollbackTo")
	k.says("delete deployments.v1beta2.apps web", "deleted")
	k.fails("get deployments.v1.apps web", "NotFound")
}

// Nothing but their own names brings them, and api/beta=true brings what it brings in Kubernetes.
// That there are decisions has nothing to do with it.
func TestRuntimeConfig(t *testing.T) {
	t.Parallel()
	k := newKubectl(t, serve(t, "--runtime-config=api/beta=true,resource.k8s.io/v1beta1=false"), "default")
	versions := "\n" + k.ok("api-versions")
	for version := range strings.FieldsSeq(legacyVersions + " resource.k8s.io/v1beta1") {
		if strings.Contains(versions, "\n"+version+"\n") {
			t.Errorf("%s is served:\n%s", version, versions)
		}
	}
	for version := range strings.FieldsSeq("certificates.k8s.io/v1beta1 coordination.k8s.io/v1beta1 resource.k8s.io/v1beta2") {
		if !strings.Contains(versions, "\n"+version+"\n") {
			t.Errorf("%s isn't served:\n%s", version, versions)
		}
	}
	if strings.Contains(strings.ReplaceAll(versions, v1alpha1.SchemeGroupVersion.String(), ""), "alpha") {
		t.Errorf("alphas are served:\n%s", versions)
	}

	k = newKubectl(t, serve(t, "--runtime-config=apps/v1=false,batch/v1/cronjobs=false"), "default")
	if versions := k.ok("api-versions"); strings.Contains(versions, "apps/v1") {
		t.Errorf("apps/v1 is served:\n%s", versions)
	}
	if jobs := k.ok("api-resources --api-group=batch -o name"); jobs != "jobs.batch\n" {
		t.Errorf("of batch, want jobs alone:\n%s", jobs)
	}
}
