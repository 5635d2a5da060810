// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// The sets of plugins that Kubernetes' documentation of 1.10 recommends
// (docs/admin/admission-controllers.md), for the versions it names, in the flag and the order in
// which it writes them.
func TestRecommendedSets(t *testing.T) {
	t.Parallel()
	for version, set := range map[string]string{
		"1.9": "NamespaceLifecycle,LimitRanger,ServiceAccount,DefaultStorageClass,DefaultTolerationSeconds," +
			"MutatingAdmissionWebhook,ValidatingAdmissionWebhook,ResourceQuota",
		"1.6": "NamespaceLifecycle,LimitRanger,ServiceAccount,PersistentVolumeLabel,DefaultStorageClass," +
			"ResourceQuota,DefaultTolerationSeconds",
		"1.4": "NamespaceLifecycle,LimitRanger,ServiceAccount,DefaultStorageClass,ResourceQuota",
		"1.2": "NamespaceLifecycle,LimitRanger,ServiceAccount,ResourceQuota",
		"1.0": "NamespaceLifecycle,LimitRanger,SecurityContextDeny,ServiceAccount,PersistentVolumeLabel,ResourceQuota",
	} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			k := newKubectl(t, serve(t, "--admission-control="+set), "shop")
			k.says("create quota few --hard=pods=1", "resourcequota/few created")
			k.says("run one --image=nginx", "pod/one created")
			k.has("pod/one", "{.spec.volumes[0].projected.sources[0].serviceAccountToken.path}", "token")
			k.has("quota/few", "{.status.used.pods}", "1")
			k.fails("run two --image=nginx", "exceeded quota: few, requested: pods=1, used: pods=1, limited: pods=1")
			k.fails("delete namespace default", "this namespace may not be deleted")
			k.fails("create configmap a --namespace=nowhere", `namespaces "nowhere" not found`)
			if strings.Contains(set, "DefaultTolerationSeconds") {
				k.has("pod/one", "{.spec.tolerations[*].tolerationSeconds}", "300 300")
			}
			if strings.Contains(set, "DefaultStorageClass") {
				k.with(defaultClass).says("create --filename=-", "storageclass.storage.k8s.io/standard created")
				// The plugin looks for it in a cache, which shows it a moment later.
				eventually(t, kubectlTimeout, func(context.Context) error {
					if out, _, _ := k.with(claim).run("create --dry-run=server --output=yaml --filename=-"); !strings.Contains(
						out, "storageClassName: standard") {
						return fmt.Errorf("the class isn't the default yet:\n%s", out)
					}
					return nil
				})
				k.with(claim).says("create --filename=-", "persistentvolumeclaim/data created")
				k.has("pvc/data", "{.spec.storageClassName}", "standard")
			}
			if strings.Contains(set, "SecurityContextDeny") {
				k.fails(`run root --image=nginx --overrides={"spec":{"securityContext":{"runAsUser":0}}}`,
					"spec.securityContext.runAsUser is forbidden")
			}
		})
	}
}

const (
	defaultClass = `{"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "example.com/disk",
		"metadata": {"name": "standard", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}}`
	claim = `{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"},
		"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}`
)

// Every plugin of that page's list can be enabled, all of them at once.
func TestEveryDocumentedPlugin(t *testing.T) {
	t.Parallel()
	documented := []string{
		"AlwaysAdmit", "AlwaysPullImages", "AlwaysDeny", "DefaultStorageClass", "DefaultTolerationSeconds",
		"DenyExecOnPrivileged", "DenyEscalatingExec",
		"EventRateLimit", "ExtendedResourceToleration", "ImagePolicyWebhook", "Initializers", "InitialResources",
		"LimitPodHardAntiAffinityTopology", "LimitRanger",
		"MutatingAdmissionWebhook", "NamespaceAutoProvision", "NamespaceExists", "NamespaceLifecycle",
		"NodeRestriction", "OwnerReferencesPermissionEnforcement",
		"PersistentVolumeLabel", "PodNodeSelector", "PersistentVolumeClaimResize", "PodPreset", "PodSecurityPolicy",
		"PodTolerationRestriction", "Priority",
		"ResourceQuota", "SecurityContextDeny", "ServiceAccount", "StorageObjectInUseProtection",
		"ValidatingAdmissionWebhook",
	}
	images := writeFile(t, "images.kubeconfig", []byte(`{"apiVersion": "v1", "kind": "Config", "current-context": "c",
		"clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1/"}}], "users": [{"name": "c", "user": {}}],
		"contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}]}`))
	config := writeFile(t, "admission.yaml", []byte(`
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: EventRateLimit
  configuration:
    apiVersion: eventratelimit.admission.k8s.io/v1alpha1
    kind: Configuration
    limits: [{type: Server, qps: 50, burst: 100}]
- name: ImagePolicyWebhook
  configuration:
    imagePolicy: {kubeConfigFile: `+images+`, allowTTL: 50, denyTTL: 50, retryBackoff: 500, defaultAllow: true}
- name: InitialResources
  configuration:
    apiVersion: gatehouse.dev/v1alpha1
    kind: InitialResourcesConfiguration
    address: http://127.0.0.1:1
`))
	k := newKubectl(t, serve(t, "--enable-admission-plugins="+strings.Join(documented, ","),
		"--admission-control-config-file="+config), "default")
	k.says("get --raw=/readyz", "ok")
	k.says("get podsecuritypolicies,podpresets,initializerconfigurations", "")
	k.fails("create configmap a", "admission control is denying all modifications")
}
