// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	baseversion "k8s.io/component-base/version"

	"gatehouse.dev/cli"
	"gatehouse.dev/review"
)

// manifests are what is reviewed.
const manifests = "testdata/input.yaml"

// What a cluster has decides, whether it is read from the cluster or from a snapshot of it.
func TestLiveAndSnapshot(t *testing.T) {
	at := "--kubeconfig=" + cluster().Kubeconfig
	live, stderr, code := run(t, "review", at, "--filename="+manifests)
	if code != review.ExitRefused || stderr != "" {
		t.Errorf("it ended with %d, and said %q", code, stderr)
	}
	if diff := cmp.Diff(wanted, settled(live)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	snapshot, stderr, code := run(t, "snapshot", at, "--filename="+manifests)
	if code != 0 || !strings.Contains(stderr, "warning: secret s in namespace shop: its data is never read") {
		t.Errorf("the snapshot ended with %d, and said %q", code, stderr)
	}
	for _, secret := range []string{"geheim", "neu", base64.StdEncoding.EncodeToString([]byte("geheim"))} {
		if strings.Contains(snapshot, secret) {
			t.Errorf("%s is in the snapshot", secret)
		}
	}
	for _, noise := range []string{"managedFields", "uid:", "resourceVersion", "creationTimestamp", "last-applied"} {
		if strings.Contains(snapshot, noise) {
			t.Errorf("%s is in the snapshot", noise)
		}
	}
	again, _, _ := run(t, "snapshot", at, "--filename="+manifests)
	if diff := cmp.Diff(snapshot, again); diff != "" {
		t.Errorf("a second snapshot differs: %s", diff)
	}
	state := "--state=" + written(t, "state.yaml", snapshot)
	for name, flags := range map[string][]string{
		"by an administrator":  nil,
		"by who may little":    {"--as=eve", "--authorize"},
		"by who may do it all": {"--as=dora", "--authorize"},
		"webhooks down":        {"--webhooks=fail"},
		"applied":              {"--operation=apply"},
		"with another plugin":  {"--enable-admission-plugins=AlwaysPullImages"},
	} {
		t.Run(name, func(t *testing.T) {
			from := func(state string) ([]verdict, int) {
				out, stderr, code := run(t, append([]string{"review", state, "--filename=" + manifests, "-o=json"},
					flags...)...)
				if stderr != "" {
					t.Error(stderr)
				}
				return verdicts(t, out), code
			}
			fromLive, liveCode := from(at)
			fromState, stateCode := from(state)
			if diff := cmp.Diff(fromLive, fromState); diff != "" || liveCode != stateCode {
				t.Errorf("%d and %d: -live +snapshot: %s", liveCode, stateCode, diff)
			}
		})
	}
}

const wanted = `refused   Deployment shop/web               testdata/input.yaml:1
          by ValidatingAdmissionPolicy: deployments.apps "web" is forbidden: ValidatingAdmissionPolicy 'replicas' ` +
	`with binding 'replicas' denied request: at most 3
          to pass: Change the object so that the policy's expression holds, or have its binding leave this object out.
refused   Deployment shop/big               testdata/input.yaml:9
          1 of 3 pods would start, then: by ResourceQuota: pods "big-…" is forbidden: exceeded quota: ` +
	`small, requested: pods=1, used: pods=2, limited: pods=2
          to pass: Ask for less, delete what counts for the quota and isn't needed, or have its hard limit raised.
admitted  ConfigMap shop/c                  testdata/input.yaml:17
          not asked: webhook hook.example.com of hook at https://127.0.0.1:1/x
admitted  Secret shop/s                     testdata/input.yaml:21
admitted  PersistentVolumeClaim shop/claim  testdata/input.yaml:26
          changed by DefaultStorageClass, StorageObjectInUseProtection
refused   Limit shop/x                      testdata/input.yaml:31
          Limit.example.com "x" is invalid: max: Invalid value: "string": max in body must be of type integer: "string"
          to pass: No plugin refused it: what came of it isn't a valid object. Change the fields named.
refused   Pod shop/host                     testdata/input.yaml:36
          by PodSecurity: pods "host" is forbidden: violates PodSecurity "baseline:latest": host namespaces ` +
	`(hostNetwork=true)
          to pass: Change the fields that the message names, or have the namespace's label ` +
	`pod-security.kubernetes.io/enforce name a level that allows them.
admitted  Service shop/svc                  testdata/input.yaml:41
refused   Service shop/same                 testdata/input.yaml:46
          Service "same" is invalid: spec.ports[0].nodePort: Invalid value: 30123: provided port is already allocated
          to pass: No plugin refused it: what came of it isn't a valid object. Change the fields named.
note: secret s in namespace shop: its data is never read: taken to have that of the manifest, with other values
4 admitted, 5 refused, 0 failed
`

// verdict is what must be the same in two reviews of the same.
type verdict struct {
	Object                 string
	Verdict, Message, By   string
	ChangedBy, Warnings    []string
	PodsWanted, PodsMade   int
	PodsMessage, Operation string
}

func verdicts(t *testing.T, output string) []verdict {
	t.Helper()
	var r review.Review
	if err := json.Unmarshal([]byte(output), &r); err != nil {
		t.Fatalf("%v in %s", err, output)
	}
	var all []verdict
	for _, result := range r.Results {
		v := verdict{Object: result.Object.String(), Verdict: string(result.Verdict), Message: settled(result.Message),
			Warnings: result.Warnings}
		if d := result.Decision; d != nil {
			v.By, v.ChangedBy, v.Operation = d.By, d.ChangedBy, d.Request.Operation
		}
		for _, pods := range result.Pods {
			v.PodsWanted, v.PodsMade, v.PodsMessage = pods.Wanted, pods.Admitted, settled(pods.Message)
		}
		all = append(all, v)
	}
	if len(all) == 0 {
		t.Fatalf("no results in %s", output)
	}
	return all
}

// What doesn't fit in one page of a list is read, too.
func TestPages(t *testing.T) {
	const many = 501 // a page and one
	for i := range many {
		if _, err := cluster().Client.CoreV1().ServiceAccounts("other").Create(t.Context(), &corev1.ServiceAccount{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("many-%d", i)}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	snapshot, _, code := run(t, "snapshot", "--kubeconfig="+cluster().Kubeconfig)
	if n := strings.Count(snapshot, "name: many-"); code != 0 || n != many {
		t.Errorf("the snapshot ended with %d, and has %d of %d", code, n, many)
	}
}

// Without the rights to read what decides nothing is judged, unless the user takes the verdicts as
// they are. What isn't known is said kind by kind.
func TestWithoutRights(t *testing.T) {
	at := "--kubeconfig=" + kubeconfig(t, "nobody")
	simple := written(t, "c.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n")
	for _, want := range []string{
		"note: namespace shop: there is no right to read it: taken to be there, without labels: what goes by those, " +
			"as Pod Security, is judged as if there were none\n",
		"note: resourcequotas in namespace shop: there is no right to read them: judged as if there were none\n",
		"note: validatingadmissionpolicies.admissionregistration.k8s.io: there is no right to read them: judged as " +
			"if there were none\n",
		"note: customresourcedefinition limits.example.com: there is no right to read it: its resources can't be " +
			"judged\n",
		"note: deployments.apps web in namespace shop: there is no right to read it: judged as if it weren't there\n",
	} {
		for _, flags := range [][]string{nil, {"--allow-incomplete"}} {
			stdout, _, code := run(t, append([]string{"review", at, "--filename=" + manifests}, flags...)...)
			if code != review.ExitFailed || !strings.Contains(stdout, want) { // a definition can't be read
				t.Errorf("%q ended with %d, and %q isn't said in\n%s", flags, code, want, stdout)
			}
			if admitted := strings.Contains(stdout, "admitted  Deployment shop/web"); admitted != (flags != nil) {
				t.Errorf("%q: admitted is %t", flags, admitted)
			}
		}
	}
	const unsure = "failed    ConfigMap default/c  "
	const because = "the cluster is known in part only: "
	judge := func(state string) {
		t.Helper()
		stdout, _, code := run(t, "review", state, "--filename="+simple)
		if code != review.ExitFailed || !strings.HasPrefix(stdout, unsure) || !strings.Contains(stdout, because) ||
			!strings.Contains(stdout, "; with --allow-incomplete it is admitted\n") ||
			!strings.HasSuffix(stdout, "0 admitted, 0 refused, 1 failed\n") {
			t.Errorf("%s: it ended with %d, and said\n%s", state, code, stdout)
		}
		stdout, _, code = run(t, "review", state, "--filename="+simple, "--allow-incomplete")
		if code != review.ExitAdmitted || !strings.HasSuffix(stdout, "1 admitted, 0 refused, 0 failed\n") {
			t.Errorf("%s --allow-incomplete: it ended with %d, and said\n%s", state, code, stdout)
		}
	}
	judge(at)
	// A snapshot needs to be asked for, and says it to those who only have that.
	snapshot, stderr, code := run(t, "snapshot", at)
	if code != cli.ExitUsage || snapshot != "" || !strings.HasPrefix(stderr, "gatehouse: "+because[:len(because)-2]) ||
		!strings.Contains(stderr, " resourcequotas: there is no right to read them") {
		t.Errorf("the snapshot ended with %d, said %q and is\n%s", code, stderr, snapshot)
	}
	snapshot, _, code = run(t, "snapshot", at, "--allow-incomplete")
	if code != 0 || !strings.Contains(snapshot, "- message: 'resourcequotas: there is no right to read them") {
		t.Errorf("the snapshot ended with %d and is\n%s", code, snapshot)
	}
	judge("--state=" + written(t, "state.yaml", snapshot))
}

// What a cluster has of a namespace and can't be stored here makes verdicts in it fail, and no
// others; what is of a kind that decides about all, all of them.
func TestUnstored(t *testing.T) {
	const snapshot = "apiVersion: gatehouse.dev/v1alpha1\nkind: Snapshot\nversion: v1.36.0\n---\n" +
		"apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Namespace\n" +
		"metadata: {name: b}\n---\n"
	const quota = "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q, namespace: a}\nspec: {hard: {pods: -1}}\n"
	const object = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: a}\n"
	other := strings.Replace(object, "namespace: a", "namespace: b", 1)
	policy := func(field string) string {
		return "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: p}\n" +
			"spec: {" + field + ", matchConstraints: {resourceRules: [{operations: [CREATE], apiGroups: [''], " +
			"apiVersions: [v1], resources: [pods]}]}, validations: [{expression: 'true'}]}\n"
	}
	const params = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: p, namespace: a}\nfuture: true\n"
	for name, test := range map[string]struct{ state, want string }{
		"in a namespace":    {quota, "failed admitted"},
		"of all namespaces": {policy("failurPolicy: Fail"), "failed failed"},
		"params": {policy("paramKind: {apiVersion: v1, kind: ConfigMap}") + params,
			"failed failed"},
		"an object under review":     {object + "data: [a]\n", "failed admitted"},
		"a field of another version": {object + "future: {a: b}\n", "failed admitted"},
		"a status of another version": {"apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q, namespace: a}\n" +
			"spec: {hard: {pods: 1}}\nstatus: {hard: {pods: 1}, used: {pods: 1}, future: yes}\n", "admitted admitted"},
	} {
		t.Run(name, func(t *testing.T) {
			stdout, _, code := run(t, "review", "--state="+written(t, "state.yaml", snapshot+test.state),
				"--filename="+written(t, "in.yaml", object+"---\n"+other))
			got, want := "", review.ExitAdmitted
			for line := range strings.Lines(stdout) {
				if word, _, ok := strings.Cut(line, "  ConfigMap"); ok && !strings.HasPrefix(line, " ") {
					got = strings.TrimSpace(got + " " + strings.TrimSpace(word))
				}
			}
			if strings.Contains(test.want, "failed") {
				want = review.ExitFailed
			}
			if got != test.want || code != want {
				t.Errorf("got %q and %d, want %q and %d:\n%s", got, code, test.want, want, stdout)
			}
		})
	}
}

// A snapshot of another version of Kubernetes is one, and a note says so.
func TestAnotherVersion(t *testing.T) {
	state := written(t, "state.yaml", "apiVersion: gatehouse.dev/v1alpha1\nkind: Snapshot\nversion: v1.30.1-eks-a1\n")
	object := written(t, "c.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n")
	stdout, _, code := run(t, "review", "--state="+state, "--filename="+object)
	if want := "note: the cluster is Kubernetes v1.30.1-eks-a1, and this judges as " + baseversion.DefaultKubeBinaryVersion + " does"; code != 0 ||
		!strings.Contains(stdout, want) {
		t.Errorf("it ended with %d, and %q isn't in %s", code, want, stdout)
	}
}

// Who isn't known to the cluster is told why.
func TestExpiredKubeconfig(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "me"},
		NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		auth *clientcmdapi.AuthInfo
		want string
	}{
		"a token": {&clientcmdapi.AuthInfo{Token: "old"}, "the kubeconfig's credentials have expired, or are another " +
			"cluster's; log in to it again"},
		"a certificate": {&clientcmdapi.AuthInfo{
			ClientCertificateData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}),
			ClientKeyData:         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
		}, "the kubeconfig's client certificate expired on 2026-01-02; log in to it again"},
	} {
		t.Run(name, func(t *testing.T) {
			config, err := clientcmd.LoadFromFile(cluster().Kubeconfig)
			if err != nil {
				t.Fatal(err)
			}
			for user := range config.AuthInfos {
				config.AuthInfos[user] = test.auth
			}
			path := filepath.Join(t.TempDir(), "kubeconfig")
			if err := clientcmd.WriteToFile(*config, path); err != nil {
				t.Fatal(err)
			}
			want := "gatehouse: the cluster at " + cluster().Config.Host + " doesn't know who asks: " + test.want + "\n"
			for _, command := range []string{"review", "snapshot"} {
				stdout, stderr, code := run(t, command, "--kubeconfig="+path, "--filename="+manifests)
				if stdout != "" || stderr != want || code != cli.ExitUsage {
					t.Errorf("%s: it ended with %d, and said %q and %q, want %q", command, code, stdout, stderr, want)
				}
			}
		})
	}
}
