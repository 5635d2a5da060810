// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gatehouse.dev/plugins"
	"gatehouse.dev/review"
	"gatehouse.dev/server"
)

// printed is what `kubectl get -o yaml` adds to an object.
const printed = `uid: 11111111-2222-3333-4444-555555555555, resourceVersion: "77", generation: 4, ` +
	`creationTimestamp: "2026-01-01T00:00:00Z", managedFields: [{manager: m, operation: Update, apiVersion: v1}]`

// gates is a CustomResourceDefinition as a cluster has it, gate one of its resources.
const gates = `
kind: CustomResourceDefinition
apiVersion: apiextensions.k8s.io/v1
metadata: {name: gates.example.com, ` + printed + `}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: gates, singular: gate, kind: Gate, listKind: GateList}
  conversion: {strategy: None}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              prefix: {type: string, x-kubernetes-validations: [{rule: self == oldSelf, message: prefix is immutable}]}
          status: {type: object, properties: {open: {type: boolean}}}
status:
  acceptedNames: {plural: gates, singular: gate, kind: Gate, listKind: GateList}
  conditions:
  - {type: NamesAccepted, status: "True", reason: NoConflicts, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}
  - {type: Established, status: "True", reason: InitialNamesAccepted, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}
  storedVersions: [v1beta1, v1]
---
kind: Gate
apiVersion: example.com/v1
metadata: {name: params, namespace: shop, ` + printed + `}
spec: {prefix: web}
status: {open: true}
`

// byGate is a policy whose params are a custom resource with a status.
const byGate = `
kind: ValidatingAdmissionPolicy
apiVersion: admissionregistration.k8s.io/v1
metadata: {name: names, ` + printed + `}
spec:
  paramKind: {apiVersion: example.com/v1, kind: Gate}
  matchConstraints:
    resourceRules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]
  validations: [{expression: "params.status.open && object.metadata.name.startsWith(params.spec.prefix)"}]
status: {observedGeneration: 4, typeChecking: {}}
---
kind: ValidatingAdmissionPolicyBinding
apiVersion: admissionregistration.k8s.io/v1
metadata: {name: names}
spec: {policyName: names, validationActions: [Deny], paramRef: {name: params, parameterNotFoundAction: Allow}}
`

func configMap(namespace, name string) string {
	return "kind: ConfigMap\napiVersion: v1\nmetadata: {name: " + name + ", namespace: " + namespace + "}\n"
}

// job is one as its manifest is, liveJob as a cluster has it.
const (
	job = "kind: Job\napiVersion: batch/v1\nmetadata: {name: job, namespace: shop}\n" +
		"spec: {suspend: true, template: {spec: {restartPolicy: Never, containers: [{name: c, image: 'i:IMAGE'}]}}}\n"
	liveJob = `
kind: Job
apiVersion: batch/v1
metadata:
  name: job
  namespace: shop
  labels: {batch.kubernetes.io/job-name: job}
  ` + "uid: 11111111-2222-3333-4444-555555555555\n  resourceVersion: '7'\n  generation: 2\n" + `
spec:
  suspend: true
  selector: {matchLabels: {batch.kubernetes.io/controller-uid: 11111111-2222-3333-4444-555555555555}}
  template:
    metadata:
      labels:
        batch.kubernetes.io/controller-uid: 11111111-2222-3333-4444-555555555555
        batch.kubernetes.io/job-name: job
        controller-uid: 11111111-2222-3333-4444-555555555555
        job-name: job
    spec: {restartPolicy: Never, containers: [{name: c, image: 'i:1'}]}
status:
  conditions: [{type: Suspended, status: "True", reason: JobSuspended, lastTransitionTime: "2026-01-01T00:00:00Z"}]
  active: 0
  startTime: null
`
)

// What a cluster has is state as it is there, and decides as it does there.
func TestStateAsPrinted(t *testing.T) {
	service := func(name, ip string) string {
		return "kind: Service\napiVersion: v1\nmetadata: {name: " + name + ", namespace: shop}\n" +
			"spec: {ports: [{port: 80}], clusterIP: " + ip + ", clusterIPs: [" + ip + "]}\n"
	}
	const ranges = "kind: ServiceCIDR\napiVersion: networking.k8s.io/v1\nmetadata: {name: second}\n" +
		"spec: {cidrs: [10.200.0.0/24]}\n"
	const notReady = "status: {conditions: [{type: Ready, status: 'False', reason: Busy, message: '', " +
		"lastTransitionTime: '2026-01-01T00:00:00Z'}]}\n"
	const terminating = "kind: Namespace\napiVersion: v1\nmetadata: {name: term, deletionTimestamp: " +
		"'2026-01-01T00:00:00Z', " + printed + "}\nspec: {finalizers: [kubernetes]}\nstatus: {phase: Terminating}\n"
	const pdb = "kind: PodDisruptionBudget\napiVersion: policy/v1\nmetadata: {name: web, namespace: shop, " + printed +
		"}\nspec: {minAvailable: 1, selector: {matchLabels: {app: web}}}\nstatus: {currentHealthy: 2, " +
		"desiredHealthy: 1, disruptionsAllowed: 1, expectedPods: 2, observedGeneration: 4}\n"
	const debugged = "kind: Pod\napiVersion: v1\nmetadata: {name: p, namespace: shop}\nspec: {containers: " +
		"[{name: c, image: i}], ephemeralContainers: [{name: e, image: i, terminationMessagePolicy: File}]}\n" +
		"status: {phase: Running}\n"
	labelled := strings.NewReplacer("{spec: {r", "{metadata: {labels: {a: b}}, spec: {r", "IMAGE", "1").Replace(job)
	atOnce := func(job string) string { return strings.Replace(job, "suspend", "parallelism: 2, suspend", 1) }
	for name, test := range map[string]struct{ state, input, want []string }{
		"a custom resource with a status is params": {state: []string{shop, gates, byGate},
			input: []string{configMap("shop", "web"), configMap("shop", "db")},
			want:  []string{"", "failed expression"}},
		"a rule of a custom resource's update": {state: []string{shop, gates}, input: []string{
			"kind: Gate\napiVersion: example.com/v1\nmetadata: {name: params, namespace: shop}\nspec: {prefix: db}\n"},
			want: []string{"prefix is immutable"}},
		"versions that a definition has stored": {state: []string{gates, "---\n", shop}, input: []string{definition},
			want: []string{`status.storedVersions[0]: Invalid value: "v1beta1": missing from spec.versions`}},
		"a Job's template is immutable": {state: []string{shop, liveJob}, input: []string{
			strings.Replace(job, "IMAGE", "2", 1)}, want: []string{"field is immutable"}},
		"a Job as it is": {state: []string{shop, liveJob}, input: []string{strings.Replace(job, "IMAGE", "1", 1)},
			want: []string{""}},
		"a Job that nobody has made yet, with a label": {state: []string{shop, labelled},
			input: []string{atOnce(labelled)}, want: []string{""}},
		"a Job that lost its UID, with more at once": {state: []string{shop, strings.Replace(liveJob, "uid: ", "#", 1)},
			input: []string{atOnce(strings.Replace(job, "IMAGE", "1", 1))}, want: []string{""}},
		"a namespace that is being deleted": {state: []string{terminating, configMap("term", "old")},
			input: []string{configMap("term", "new"), configMap("term", "old")},
			want: []string{"unable to create new content in namespace term because it is being terminated",
				""}},
		"IPs of a second range": {state: []string{shop, service("a", "10.200.0.9"), ranges},
			input: []string{service("b", "10.200.0.9"), service("c", "10.200.0.10"), service("a", "10.200.0.9")},
			want:  []string{"provided IP is already allocated", "", ""}},
		"IPs of a range that isn't among the state": {state: []string{shop, service("a", "10.200.0.9")},
			input: []string{service("c", "10.200.0.10"), service("a", "10.200.0.9"), ranges, service("b", "10.200.0.9"),
				service("d", "10.200.0.10")},
			want: []string{"does not match the current range", "", "", "provided IP is already allocated", ""}},
		"a range that isn't ready": {state: []string{shop, ranges + notReady}, input: []string{
			service("a", "10.200.0.9")}, want: []string{"does not match the current range"}},
		"an IP that another service of the state has": {state: []string{shop, service("a", "10.0.0.9"),
			strings.Replace(service("a", "10.0.0.9"), "name: a", "name: kubernetes", 1)},
			want: []string{"spec.clusterIPs: 10.0.0.9 is taken"}},
		"a PodDisruptionBudget": {state: []string{shop, pdb}, input: []string{
			strings.Replace(pdb[:strings.Index(pdb, "status:")], printed, "", 1)}, want: []string{""}},
		"a pod that is being debugged": {state: []string{shop, debugged}, input: []string{
			strings.Replace(debugged[:strings.Index(debugged, "status:")], "terminationMessagePolicy: File", "", 1)},
			want: []string{""}},
		"what every server has": {state: []string{
			strings.Replace(strings.Replace(service("kubernetes", "10.96.0.1"), "shop", "default", 1), "{name",
				"{"+printed+", name", 1),
			"kind: ComponentStatus\napiVersion: v1\nmetadata: {name: etcd-0}\nconditions: []\n",
			"kind: Decision\napiVersion: decisions.gatehouse.dev/v1alpha1\nmetadata: {name: d, namespace: shop}\n"},
			input: []string{configMap("default", "c")}, want: []string{""}},
		"a version of before": {state: []string{shop, strings.Replace(pdb, "policy/v1", "policy/v1beta1", 1)},
			input: []string{configMap("shop", "c")}, want: []string{""}},
		"a field that its kind doesn't have": {state: []string{strings.Replace(byGate, "spec:\n",
			"spec:\n  failurPolicy: Fail\n", 1)},
			want: []string{`unknown field "spec.failurPolicy" (did you mean "failurePolicy"?)`}},
		"a status that its kind doesn't have": {state: []string{shop, quotaOf("usd: {pods: '1'}")},
			want: []string{`unknown field "status.usd" (did you mean "used"?)`}},
		"a definition that is being deleted": {state: []string{strings.Replace(gates, "generation: 4",
			"deletionTimestamp: '2026-01-01T00:00:00Z'", 1)}, want: []string{"it is being deleted"}},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := review.Start(t.Context(), review.Options{Config: server.NewConfig(plugins.List),
				State: documents(t, test.state...)})
			if err != nil {
				if test.input != nil || !strings.Contains(err.Error(), test.want[0]) {
					t.Errorf("the state is refused: %v", err)
				}
				return
			}
			defer func() {
				if err := r.Close(); err != nil {
					t.Error(err)
				}
			}()
			if test.input == nil {
				t.Fatalf("the state isn't refused, want %q", test.want)
			}
			done, err := r.Review(t.Context(), documents(t, test.input...), nil)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for i, result := range done.Results {
				message := result.Message
				if i < len(test.want) && test.want[i] != "" && strings.Contains(message, test.want[i]) {
					message = test.want[i]
				}
				got = append(got, message)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// quotaOf is a quota with a status.
func quotaOf(status string) string {
	return "kind: ResourceQuota\napiVersion: v1\nmetadata: {name: q, namespace: shop}\nspec: {hard: {pods: '3'}}\n" +
		"status: {" + status + "}\n"
}
