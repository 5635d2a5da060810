// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package plugins_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/test/servertest"
)

const (
	workload = `{apiVersion: scheduling.k8s.io/v1alpha3, kind: Workload, metadata: {name: w},
spec: {podGroupTemplates: [{name: a, schedulingPolicy: {basic: {}}}]}}`

	group = `{apiVersion: scheduling.k8s.io/v1alpha3, kind: PodGroup, metadata: {name: g},
spec: {workloadRef: {workloadName: w, templateName: a}, schedulingPolicy: {basic: {}}}}`

	gang = `{apiVersion: scheduling.k8s.io/v1alpha3, kind: PodGroup, metadata: {name: gang},
spec: {schedulingPolicy: {gang: {minCount: 2}}}}`

	job = `{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {parallelism: 2, template: {spec: {
schedulingGroup: {podGroupName: gang}, containers: [{name: c, image: i}], restartPolicy: Never}}}}`
)

// The plugins that are behind feature gates which are off by default: with the gates on they act,
// and without them the same requests pass, or their kinds aren't there. Kubernetes had
// PodGroupWorkloadExists and JobValidation until 1.36.
func TestGates(t *testing.T) {
	t.Parallel()
	p := servertest.NewProcess(t, "--emulated-version=1.36", "--feature-gates=GenericWorkload=true,ClusterTrustBundle=true",
		"--runtime-config=scheduling.k8s.io/v1alpha3=true,certificates.k8s.io/v1beta1=true")
	p.Start(t)
	c := p.Connect(t)
	u := admin(t, c)

	_, err := u.create(group)
	u.want(err, `podgroups.scheduling.k8s.io "g" is forbidden: PodGroup rejected: Workload "w" not found`)
	u.must(workload)
	created := u.must(group)
	if f := created.GetFinalizers(); len(f) != 1 || f[0] != "scheduling.k8s.io/podgroup-protection" {
		t.Errorf("finalizers %q", f)
	}
	_, err = u.create(strings.Replace(strings.Replace(group, "name: g", "name: h", 1), "templateName: a", "templateName: b", 1))
	u.want(err, `PodGroup rejected: PodGroupTemplate "b" not found in Workload "w"`)

	// Of a group that is there nothing more is asked.
	u.must(strings.Replace(workload, "name: w}", "name: leaving, finalizers: [example.com/f]}", 1))
	leaving := u.must(strings.Replace(strings.Replace(group, "name: g", "name: left", 1), "workloadName: w",
		"workloadName: leaving", 1))
	if err := u.of(servertest.Parsed(t, workload)).Delete(t.Context(), "leaving", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	u.eventually(`PodGroup rejected: Workload "leaving" is being deleted`, func() error {
		_, err := u.create(strings.Replace(strings.Replace(group, "name: g", "name: late", 1), "workloadName: w",
			"workloadName: leaving", 1))
		return err
	})
	_, err = u.patch(leaving, `status: {conditions: [{type: T, status: "True", reason: R, message: M,
lastTransitionTime: "2026-01-01T00:00:00Z"}]}`, "status")
	u.want(err, "")
	// Who takes the finalizer off gets none again.
	bare, err := u.patch(leaving, "metadata: {finalizers: null, labels: {l: '1'}}")
	u.want(err, "")
	if f := bare.GetFinalizers(); len(f) != 0 {
		t.Errorf("finalizers %q", f)
	}

	u.must(gang)
	free := u.must(strings.NewReplacer("name: j", "name: free", "gang", "g").Replace(job))
	_, err = u.patch(free, "spec: {parallelism: 3}")
	u.want(err, "")
	j := u.must(job)
	parallelism := 2
	u.eventually(`cannot change parallelism for a Job referencing gang-scheduled PodGroup "gang"`, func() error {
		parallelism++ // or it would be no change, once one has passed
		_, err := u.patch(j, fmt.Sprintf("spec: {parallelism: %d}", parallelism))
		return err
	})
	_, err = u.patch(j, "spec: {suspend: true}")
	u.want(err, "")
	_, err = u.patch(j, "status: {active: 1}", "status")
	u.want(err, "")

	jane := u.as(c, "jane")
	ca := strings.ReplaceAll("\n"+string(c.Config.CAData), "\n", "\n    ")
	bundle := "apiVersion: certificates.k8s.io/v1beta1\nkind: ClusterTrustBundle\n" +
		"metadata: {name: 'example.com:s:b'}\nspec:\n  signerName: example.com/s\n  trustBundle: |" + ca
	u.grant("writers", "create, patch", "certificates.k8s.io", "clustertrustbundles", "")
	u.eventually(`user not permitted to attest for signerName "example.com/s"`, func() error {
		_, err := jane.create(bundle)
		return err
	})
	_, err = jane.create(strings.NewReplacer("example.com:s:b", "anybodys", "  signerName: example.com/s\n", "").
		Replace(bundle))
	u.want(err, "") // without a signer
	stored := u.must(bundle)
	_, err = jane.patch(stored, `metadata: {labels: {l: "1"}}`)
	u.want(err, "user not permitted to attest")
	_, err = jane.patch(stored, `metadata: {finalizers: [example.com/f]}`)
	u.want(err, "")
	u.grant("attesters", "attest", "certificates.k8s.io", "signers", "example.com/*")
	u.eventually("", func() error { _, err := jane.patch(stored, `metadata: {labels: {l: "1"}}`); return err })
}

// Plugins that Kubernetes no longer has don't run, and flags that name them are accepted with a warning.
// PodGroupProtection runs without them.
func TestEnded(t *testing.T) {
	t.Parallel()
	p := servertest.NewProcess(t, "--feature-gates=GenericWorkload=true",
		"--runtime-config=scheduling.k8s.io/v1alpha3=true,scheduling.k8s.io/v1beta1=true",
		"--enable-admission-plugins=PodGroupWorkloadExists", "--disable-admission-plugins=JobValidation")
	p.Start(t)
	u := admin(t, p.Connect(t))
	created := u.must(group)
	// A deleted group stays until its pod has gone.
	member := u.must(pod("schedulingGroup: {podGroupName: g}"))
	if err := u.of(created).Delete(t.Context(), "g", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if left, err := u.of(created).Get(t.Context(), "g", metav1.GetOptions{}); err != nil ||
		left.GetDeletionTimestamp() == nil {
		t.Errorf("after its deletion the group is %v, %v", left, err)
	}
	if err := u.of(member).Delete(t.Context(), member.GetName(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	u.eventually("not found", func() error {
		_, err := u.of(created).Get(t.Context(), "g", metav1.GetOptions{})
		return err
	})
	for _, want := range []string{
		"admission plugin PodGroupWorkloadExists ended with Kubernetes 1.36, and doesn't run: remove it from --enable-admission-plugins",
		"admission plugin JobValidation ended with Kubernetes 1.36, and doesn't run: remove it from --disable-admission-plugins",
	} {
		if !strings.Contains(p.Log(), want) {
			t.Errorf("the log doesn't have %q:\n%s", want, p.Log())
		}
	}
}

// What is on by default is off with its gate. NodeDeclaredFeatures can't be off alone: four other
// gates need it.
func TestGatesOff(t *testing.T) {
	t.Parallel()
	p := servertest.NewProcess(t, "--emulated-version=1.36", "--feature-gates=PodTopologyLabelsAdmission=false,NodeDeclaredFeatures=false,"+
		"ExtendWebSocketsToKubelet=false,InPlacePodLevelResourcesVerticalScaling=false,"+
		"InPlacePodVerticalScalingInitContainers=false,RestartAllContainersOnContainerExits=false")
	p.Start(t)
	c := p.Connect(t)
	u := admin(t, c)
	u.must(node)
	created := u.must(onNode)
	if labels := created.GetLabels(); len(labels) != 1 {
		t.Errorf("labels %v", labels)
	}
	job := u.must(strings.Replace(job, "schedulingGroup: {podGroupName: gang},", "", 1))
	_, err := u.patch(job, "spec: {parallelism: 3}")
	u.want(err, "")

	u.eventually("", func() error {
		_, err := u.patch(created, `spec: {containers: [{name: d, resources: {requests: {cpu: "2"}}}]}`, "resize")
		return err
	})
	metrics, err := c.Client.RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	u.want(err, "")
	for plugin, asked := range map[string]bool{"PodResizeValidator": true, "NodeDeclaredFeatureValidator": false,
		"PodTopologyLabels": false, "JobValidation": false} {
		if strings.Contains(string(metrics), `{name="`+plugin+`",operation="UPDATE"`) != asked {
			t.Errorf("%s was asked: %t, want %t", plugin, !asked, asked)
		}
	}
}
