// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package plugins

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/component-base/featuregate"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
	"gatehouse.dev/test/backends"
)

// rightsTimeout bounds what a plugin does in the background, as writing events.
const rightsTimeout = 2 * time.Minute

// A plugin's Access has nothing that the plugin never uses; that it has all that it uses is held by
// plugintest, in every test of every plugin.
func TestAccessIsNoMoreThanNeeded(t *testing.T) {
	requests := requestsForRights()
	for i := range List {
		d := &List[i]
		if d.Server.Only != "" {
			if d.Access != nil {
				t.Errorf("%s never runs outside, and has Access", d.Name)
			}
			continue
		}
		t.Run(d.Name, func(t *testing.T) {
			cluster := clusterOfEverything(t)
			built := cluster.Build(t, *d, configurationOf(t, d.Name))
			for _, r := range requests[d.Name] {
				// whether it is refused is the plugin's own tests' concern
				if d.Phases.Has(plugin.Mutating) {
					built.Admit(t, r)
				} else {
					built.Validate(t, r)
				}
			}
			for end := time.Now().Add(rightsTimeout); ; time.Sleep(time.Millisecond) {
				got, want := cluster.Rights(), d.Rights()
				if d.Gate != "" { // of which the chain asks
					got = append(got, "get /metrics")
					slices.Sort(got)
					got = slices.Compact(got)
				}
				if slices.Equal(got, want) || len(got) == 0 && len(want) == 0 {
					return
				}
				if time.Now().After(end) {
					t.Fatalf("used are %q, Access says %q", got, want)
				}
			}
		})
	}
}

// configurationOf is one for a plugin that wants one.
func configurationOf(t *testing.T, plugin string) string {
	t.Helper()
	switch plugin {
	case "EventRateLimit":
		return "apiVersion: eventratelimit.admission.k8s.io/v1alpha1\nkind: Configuration\n" +
			"limits: [{type: Server, qps: 1, burst: 1}]"
	case "ImagePolicyWebhook":
		return "imagePolicy: {kubeConfigFile: " + backends.StartImages(t, http.NotFoundHandler()).Kubeconfig + "}"
	}
	return ""
}

// clusterOfEverything lets every user do what they want, has every feature, a node and a quota.
func clusterOfEverything(t *testing.T) *plugintest.Cluster {
	t.Helper()
	cluster := plugintest.NewCluster(t,
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"},
			Spec: corev1.PodSpec{NodeName: "n", ServiceAccountName: "a"}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u"}},
		&corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "q", UID: "u"},
			Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"pods": resource.MustParse("9")}},
			Status: corev1.ResourceQuotaStatus{Hard: corev1.ResourceList{"pods": resource.MustParse("9")},
				Used: corev1.ResourceList{"pods": resource.MustParse("1")}}})
	cluster.Serve(runtime.NewScheme(), nil)
	cluster.Env.RESTMapper = meta.NewDefaultRESTMapper(nil)
	cluster.Env.Authorizer = authorizer.AuthorizerFunc(
		func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
			return authorizer.DecisionAllow, "", nil
		})
	gates := featuregate.NewFeatureGate()
	for _, gate := range []featuregate.Feature{"AllowInsecureKubeletCertificateSigningRequests",
		"ServiceAccountNodeAudienceRestriction", "PodCertificateRequest", "RecoverVolumeExpansionFailure",
		"CSIVolumeHealth"} {
		if err := gates.Add(map[featuregate.Feature]featuregate.FeatureSpec{gate: {Default: true}}); err != nil {
			t.Fatal(err)
		}
	}
	cluster.Env.Features = gates
	return cluster
}

// requestsForRights are requests that together need all that a plugin may do.
func requestsForRights() map[string][]plugintest.Request {
	requests := map[string][]plugintest.Request{}
	for name, r := range reading() {
		requests[name] = []plugintest.Request{r}
	}
	named := metav1.ObjectMeta{Namespace: "ns", Name: "x"}
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "u", Controller: new(true)}
	requests["ResourceQuota"] = append(requests["ResourceQuota"],
		plugintest.Create(&resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "x",
			Annotations:     map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"},
			OwnerReferences: []metav1.OwnerReference{owner}},
			Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{
				{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "c", Count: 1,
					AllocationMode: resourcev1.DeviceAllocationModeExactCount}}}}}}))

	byNode := func(r plugintest.Request) plugintest.Request { return r.By("system:node:n", "system:nodes") }
	token := plugintest.Create(&authenticationv1.TokenRequest{ObjectMeta: named,
		Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"a"}, BoundObjectRef: &authenticationv1.
			BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "u"}}}).On("serviceaccounts", "token")
	token.Resource = corev1.SchemeGroupVersion.WithResource("serviceaccounts")
	certificate := plugintest.Create(&certificatesv1beta1.PodCertificateRequest{ObjectMeta: named,
		Spec: certificatesv1beta1.PodCertificateRequestSpec{NodeName: "n", NodeUID: "u", PodName: "p", PodUID: "u",
			ServiceAccountName: "a"}})
	ofAnother := plugintest.Create(&certificatesv1beta1.PodCertificateRequest{ObjectMeta: named,
		Spec: certificatesv1beta1.PodCertificateRequestSpec{NodeName: "n", NodeUID: "v"}})
	requests["NodeRestriction"] = []plugintest.Request{byNode(token), byNode(certificate), byNode(ofAnother),
		reading()["NodeRestriction"].By("system:node:m", "system:nodes")}

	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}
	stricter := space.DeepCopy()
	stricter.Labels = map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}
	requests["PodSecurity"] = append(requests["PodSecurity"], plugintest.Update(stricter, space))

	signed := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "x"},
		Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: "example.com/a"}}
	issued := signed.DeepCopy()
	issued.Status.Certificate = []byte("c")
	requests["CertificateApproval"] = []plugintest.Request{
		plugintest.Update(signed, signed).On("certificatesigningrequests", "approval")}
	requests["CertificateSigning"] = []plugintest.Request{
		plugintest.Update(issued, signed).On("certificatesigningrequests", "status")}
	requests["ClusterTrustBundleAttest"] = []plugintest.Request{
		plugintest.Create(&certificatesv1beta1.ClusterTrustBundle{ObjectMeta: metav1.ObjectMeta{Name: "x"},
			Spec: certificatesv1beta1.ClusterTrustBundleSpec{SignerName: "example.com/a"}})}
	requests["OwnerReferencesPermissionEnforcement"] = []plugintest.Request{
		plugintest.Update(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "x",
			OwnerReferences: []metav1.OwnerReference{owner}}}, &corev1.Pod{ObjectMeta: named})}
	return requests
}
