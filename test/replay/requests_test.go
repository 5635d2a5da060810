// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package replay_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"gatehouse.dev/internal/review/recorded"
	"gatehouse.dev/test/servertest"
)

// A step is a request, and the code that answers it.
type step struct {
	name, method, path, contentType, body string
	code                                  int
	// unjudged is why the request can't be judged, or "".
	unjudged recorded.Reason
	// user is who makes it, an administrator if empty.
	user string
}

const (
	jsonPatch      = "application/json-patch+json"
	mergePatch     = "application/merge-patch+json"
	strategicPatch = "application/strategic-merge-patch+json"
	applyPatch     = "application/apply-patch+yaml"
)

const crd = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"lamps.example.com"},
"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"lamps","singular":"lamp","kind":"Lamp","listKind":"LampList"},
"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{},"scale":{"specReplicasPath":".spec.bulbs",
"statusReplicasPath":".status.bulbs"}},"schema":{"openAPIV3Schema":{"type":"object","properties":{
"spec":{"type":"object","properties":{"bulbs":{"type":"integer"},"colour":{"type":"string","default":"white"}}},
"status":{"type":"object","properties":{"bulbs":{"type":"integer"}}}}}}}]}}`

const podSpec = `{"containers":[{"name":"c","image":"nginx","resources":{"requests":{"cpu":"100m"}}}]}`

const deployment = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{"replicas":2,
"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},"spec":` + podSpec + `}}}`

// steps are requests in namespace replay, unless they say another.
var steps = []step{
	{"create a namespace", "POST", "/api/v1/namespaces", "", `{"metadata":{"name":"replay"}}`, 201, "", ""},
	{"label a namespace", "PATCH", "/api/v1/namespaces/replay", mergePatch, `{"metadata":{"labels":{"a":"b"}}}`, 200, "", ""},
	{"create", "POST", "configmaps?fieldManager=tester", "", `{"metadata":{"name":"a"},"data":{"k":"1"}}`, 201, "", "alice"},
	{"create by generateName", "POST", "configmaps", "", `{"metadata":{"generateName":"g-"}}`, 201, "", "alice"},
	{"create with what the server sets", "POST", "configmaps", "", `{"metadata":{"name":"set","uid":"x","creationTimestamp":` +
		`"2020-01-01T00:00:00Z","selfLink":"y"}}`, 201, "", ""},
	{"create as a dry run", "POST", "configmaps?dryRun=All", "", `{"metadata":{"name":"dry"}}`, 201, "", ""},
	{"update", "PUT", "configmaps/a?fieldValidation=Strict", "", `{"metadata":{"name":"a"},"data":{"k":"2"}}`, 200, "", "bob"},
	{"update as a dry run", "PUT", "configmaps/a?dryRun=All", "", `{"metadata":{"name":"a"},"data":{"k":"dry"}}`, 200, "", ""},
	{"merge patch", "PATCH", "configmaps/a", mergePatch, `{"data":{"k":"3","l":"new"}}`, 200, "", "alice"},
	{"merge patch as a dry run", "PATCH", "configmaps/a?dryRun=All", mergePatch, `{"data":{"k":"dry"}}`, 200, "", ""},
	{"JSON patch", "PATCH", "configmaps/a", jsonPatch, `[{"op":"remove","path":"/data/l"}]`, 200, "", ""},
	{"patch that changes nothing", "PATCH", "configmaps/a", mergePatch, `{"data":{"k":"3"}}`, 200, "", ""},
	{"apply that creates", "PATCH", "configmaps/applied?fieldManager=me", applyPatch,
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: applied}\ndata: {k: '1'}", 201, "", "carol"},
	{"apply that changes", "PATCH", "configmaps/applied?fieldManager=me&force=true", applyPatch,
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: applied}\ndata: {k: '2'}", 200, "", "carol"},
	{"apply as a dry run", "PATCH", "configmaps/applied?fieldManager=me&dryRun=All", applyPatch,
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: applied}\ndata: {k: '3'}", 200, "", ""},
	{"apply that creates as a dry run", "PATCH", "configmaps/unapplied?fieldManager=me&dryRun=All", applyPatch,
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: unapplied}\ndata: {k: '3'}", 201, "", ""},
	{"PUT that creates", "PUT", "/apis/coordination.k8s.io/v1/namespaces/replay/leases/l", "",
		`{"metadata":{"name":"l"},"spec":{"holderIdentity":"me"}}`, 201, "", ""},
	{"update again", "PUT", "configmaps/a", "", `{"metadata":{"name":"a"},"data":{"k":"4"}}`, 200, "", ""},

	{"refused create", "POST", "configmaps", "", `{"metadata":{"name":"no","annotations":{"refuse":"CREATE"}}}`, 403, "", "alice"},
	{"refused update", "PUT", "configmaps/a", "", `{"metadata":{"name":"a","annotations":{"refuse":"UPDATE"}}}`, 403, "", ""},
	{"refused merge patch", "PATCH", "configmaps/a", mergePatch, `{"metadata":{"annotations":{"refuse":"UPDATE"}}}`, 403, "", ""},
	{"refused JSON patch", "PATCH", "configmaps/a", jsonPatch, `[{"op":"add","path":"/metadata/annotations","value":{"refuse":` +
		`"UPDATE"}}]`, 403, "", ""},
	{"refused apply", "PATCH", "configmaps/applied?fieldManager=me", applyPatch, "apiVersion: v1\nkind: ConfigMap\n" +
		"metadata: {name: applied, annotations: {refuse: UPDATE}}", 403, recorded.ApplyPatch, ""},
	{"mark for a refused deletion", "PATCH", "configmaps/applied", mergePatch, `{"metadata":{"annotations":{"refuse":"DELETE"}}}`,
		200, "", ""},
	{"refused deletion", "DELETE", "configmaps/applied", "", "", 403, "", ""},
	{"refused creation by apply", "PATCH", "configmaps/never?fieldManager=me", applyPatch, "apiVersion: v1\nkind: ConfigMap\n" +
		"metadata: {name: never, annotations: {refuse: CREATE}}", 403, recorded.UnknownBase, ""},

	{"delete as a dry run", "DELETE", "configmaps/a?dryRun=All", "", "", 200, "", ""},
	{"delete", "DELETE", "configmaps/a", "", `{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Background"}`,
		200, "", "alice"},
	{"create again", "POST", "configmaps", "", `{"metadata":{"name":"a","finalizers":["example.com/wait"]}}`, 201, "", ""},
	{"delete what has a finalizer", "DELETE", "configmaps/a?gracePeriodSeconds=0", "", "", 200, "", ""},
	{"remove the finalizer", "PATCH", "configmaps/a", jsonPatch, `[{"op":"remove","path":"/metadata/finalizers"}]`, 200, "", ""},
	{"delete a collection as a dry run", "DELETE", "configmaps?labelSelector=!x&dryRun=All&fieldSelector=metadata.name=set", "",
		"", 200, "", ""},
	{"delete a collection", "DELETE", "configmaps?fieldSelector=metadata.name!=applied", "", "", 200, "", "bob"},

	{"create a secret", "POST", "secrets", "", `{"metadata":{"name":"s"},"stringData":{"password":"hidden"}}`, 201, "", ""},
	{"patch a secret", "PATCH", "secrets/s", mergePatch, `{"data":{"more":"aGlkZGVu"}}`, 200, "", ""},
	{"delete a secret", "DELETE", "secrets/s", "", "", 200, "", ""},
	{"create a service", "POST", "services", "", `{"metadata":{"name":"svc"},"spec":{"ports":[{"port":80}]}}`, 201, "", ""},
	{"strategic patch of a service", "PATCH", "services/svc", strategicPatch, `{"spec":{"ports":[{"port":81,"name":"b"},` +
		`{"port":80,"name":"a"}]}}`, 200, "", ""},
	{"delete a service", "DELETE", "services/svc", "", "", 200, "", ""},

	{"create a deployment", "POST", "/apis/apps/v1/namespaces/replay/deployments", "", deployment, 201, "", "alice"},
	{"strategic patch", "PATCH", "/apis/apps/v1/namespaces/replay/deployments/web", strategicPatch,
		`{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"busybox"}]}}}}`, 200, "", ""},
	{"scale by PUT", "PUT", "/apis/apps/v1/namespaces/replay/deployments/web/scale", "",
		`{"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{"name":"web","namespace":"replay"},"spec":{"replicas":3}}`, 200, "", "bob"},
	{"scale by a patch", "PATCH", "/apis/apps/v1/namespaces/replay/deployments/web/scale", mergePatch, `{"spec":{"replicas":4}}`,
		200, "", ""},
	{"scale to the same", "PATCH", "/apis/apps/v1/namespaces/replay/deployments/web/scale", mergePatch, `{"spec":{"replicas":4}}`,
		200, "", ""},
	{"scale as a dry run", "PATCH", "/apis/apps/v1/namespaces/replay/deployments/web/scale?dryRun=All", mergePatch,
		`{"spec":{"replicas":5}}`, 200, "", ""},
	{"patch what was scaled", "PATCH", "/apis/apps/v1/namespaces/replay/deployments/web", mergePatch,
		`{"metadata":{"labels":{"a":"b"}}}`, 200, "", ""},
	{"status of a deployment", "PATCH", "/apis/apps/v1/namespaces/replay/deployments/web/status", mergePatch,
		`{"status":{"replicas":1,"updatedReplicas":1}}`, 200, "", ""},
	{"refused strategic patch", "PATCH", "/apis/apps/v1/namespaces/replay/deployments/web", strategicPatch,
		`{"metadata":{"annotations":{"refuse":"UPDATE"}},"spec":{"template":{"spec":{"$setElementOrder/containers":[{"name":` +
			`"side"},{"name":"c"}],"containers":[{"name":"side","image":"busybox:2"}]}}}}`, 403, "", ""},
	{"refused patch of a list", "PATCH", "/apis/apps/v1/namespaces/replay/deployments/web", strategicPatch,
		`{"metadata":{"annotations":{"refuse":"UPDATE"}},"spec":{"template":{"spec":{"containers":[{"name":"side","image":` +
			`"busybox:2"}]}}}}`, 403, recorded.AmbiguousPatch, ""},
	{"delete a deployment", "DELETE", "/apis/apps/v1/namespaces/replay/deployments/web", "", "", 200, "", ""},

	{"create a pod", "POST", "pods", "", `{"metadata":{"name":"p"},"spec":` + podSpec + `}`, 201, "", "alice"},
	{"create a node", "POST", "/api/v1/nodes", "", `{"metadata":{"name":"n"},"status":{"capacity":` +
		`{"cpu":"8"},"allocatable":{"cpu":"8"}}}`, 201, "", ""},
	{"bind a pod", "POST", "pods/p/binding", "", `{"metadata":{"name":"p"},"target":{"kind":"Node","name":"n"}}`, 201, "", ""},
	{"patch after a binding", "PATCH", "pods/p", mergePatch, `{"metadata":{"labels":{"a":"b"}}}`, 200, recorded.UnknownBase, ""},
	{"status of a pod", "PATCH", "pods/p/status", strategicPatch, `{"status":{"phase":"Running","podIP":"10.0.0.1"}}`, 200, "", ""},
	{"ephemeral containers", "PATCH", "pods/p/ephemeralcontainers", strategicPatch,
		`{"spec":{"ephemeralContainers":[{"name":"debug","image":"busybox"}]}}`, 200, "", "bob"},
	{"resize", "PATCH", "pods/p/resize", strategicPatch,
		`{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"200m"}}}]}}`, 200, "", ""},
	{"exec", "POST", "pods/p/exec?command=ls&command=-l&container=c&stdout=true&tty=true", "", "", 0, "", "bob"},
	{"exec by GET", "GET", "pods/p/exec?command=ls&stdin=true", "", "", 0, "", ""},
	{"attach", "POST", "pods/p/attach?stdin=1", "", "", 0, "", ""},
	{"forward ports", "POST", "pods/p/portforward?ports=80", "", "", 0, "", ""},
	{"proxy", "GET", "pods/p/proxy/healthz/?x=y", "", "", 0, "", ""},
	{"proxy without a path", "DELETE", "services/none/proxy", "", "", 0, "", ""},
	{"evict as a dry run", "POST", "pods/p/eviction?dryRun=All", "", `{"apiVersion":"policy/v1","kind":"Eviction","metadata":` +
		`{"name":"p"}}`, 201, "", ""},
	{"evict", "POST", "pods/p/eviction", "", `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"p"},` +
		`"deleteOptions":{"gracePeriodSeconds":0}}`, 201, "", ""},
	{"create a pod to delete", "POST", "pods", "", `{"metadata":{"name":"q"},"spec":` + podSpec + `}`, 201, "", ""},
	{"delete a pod", "DELETE", "pods/q", "", `{"gracePeriodSeconds":0}`, 200, "", ""},

	{"create an account", "POST", "serviceaccounts", "", `{"metadata":{"name":"robot"}}`, 201, "", ""},
	{"ask for a token", "POST", "serviceaccounts/robot/token", "", `{"apiVersion":"authentication.k8s.io/v1","kind":` +
		`"TokenRequest","spec":{"expirationSeconds":3600}}`, 201, "", ""},

	{"define a kind", "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "", crd, 201, "", ""},
	{"create a custom object", "POST", lamps, "", `{"apiVersion":"example.com/v1","kind":"Lamp","metadata":{"name":"l"},"spec":` +
		`{"bulbs":1}}`, 201, "", "carol"},
	{"merge patch of a custom object", "PATCH", lamps + "/l", mergePatch, `{"spec":{"colour":"red"}}`, 200, "", ""},
	{"status of a custom object", "PATCH", lamps + "/l/status", mergePatch, `{"status":{"bulbs":1}}`, 200, "", ""},
	{"scale a custom object", "PATCH", lamps + "/l/scale", mergePatch, `{"spec":{"replicas":2}}`, 200, recorded.UnknownBase, ""},
	{"scale a custom object again", "PATCH", lamps + "/l/scale", mergePatch, `{"spec":{"replicas":3}}`, 200, "", ""},
	{"patch a custom object that was scaled", "PATCH", lamps + "/l", mergePatch, `{"spec":{"colour":"blue"}}`, 200,
		recorded.UnknownBase, ""},
	{"apply a custom object", "PATCH", lamps + "/m?fieldManager=me", applyPatch,
		"apiVersion: example.com/v1\nkind: Lamp\nmetadata: {name: m}\nspec: {bulbs: 4}", 201, "", ""},
	{"refused patch of a custom object", "PATCH", lamps + "/l", mergePatch, `{"metadata":{"annotations":{"refuse":"UPDATE"}}}`,
		403, "", ""},
	{"delete a custom object", "DELETE", lamps + "/l", "", "", 200, "", ""},
	{"delete custom objects", "DELETE", lamps, "", "", 200, "", ""},

	{"create without a response", "POST", "/api/v1/namespaces", "", `{"metadata":{"name":"request-only"}}`, 201, "", ""},
	{"create at level Request", "POST", "/api/v1/namespaces/request-only/configmaps", "", `{"metadata":{"name":"r"}}`, 201, "", ""},
	{"patch at level Request", "PATCH", "/api/v1/namespaces/request-only/configmaps/r", mergePatch, `{"data":{"a":"b"}}`, 200,
		recorded.UnknownBase, ""},
	{"apply at level Request", "PATCH", "/api/v1/namespaces/request-only/configmaps/s?fieldManager=me", applyPatch,
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: s}", 201, recorded.NoResponse, ""},
	{"delete at level Request", "DELETE", "/api/v1/namespaces/request-only/configmaps/r", "", "", 200, recorded.UnknownBase, ""},
	{"create a namespace at level Metadata", "POST", "/api/v1/namespaces", "", `{"metadata":{"name":"metadata-only"}}`, 201, "", ""},
	{"create at level Metadata", "POST", "/api/v1/namespaces/metadata-only/configmaps", "", `{"metadata":{"name":"r"}}`, 201,
		recorded.MetadataLevel, ""},

	{"make a policy", "POST", policies + "validatingadmissionpolicies", "", `{"metadata":{"name":"p"},"spec":{"matchConstraints":` +
		`{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["configmaps"]}]},` +
		`"validations":[{"expression":"object.metadata.name != 'bad'"},{"expression":"object.metadata.name != 'worse'",` +
		`"reason":"Forbidden","message":"worse"}]}}`, 201, "", ""},
	{"bind the policy", "POST", policies + "validatingadmissionpolicybindings", "", `{"metadata":{"name":"p"},"spec":{"policyName":` +
		`"p","validationActions":["Deny"]}}`, 201, "", ""},
	{"refused by a policy", "POST", "configmaps?dryRun=All", "", `{"metadata":{"name":"bad"}}`, 422, "", "alice"},
	{"refused by a policy with a reason", "POST", "configmaps?dryRun=All", "", `{"metadata":{"name":"worse"}}`, 403, "", "alice"},
	{"make a quota", "POST", "resourcequotas", "", `{"metadata":{"name":"q"},"spec":{"hard":{"count/secrets":"0"}}}`, 201, "", ""},
	{"refused by a quota", "POST", "secrets?dryRun=All", "", `{"metadata":{"name":"s"},"data":{"a":"aGk="}}`, 403, "", ""},
	{"enforce PodSecurity", "PATCH", "/api/v1/namespaces/replay", mergePatch, `{"metadata":{"labels":{` +
		`"pod-security.kubernetes.io/enforce":"restricted"}}}`, 200, "", ""},
	{"refused by PodSecurity", "POST", "pods", "", `{"metadata":{"name":"insecure"},"spec":` + podSpec + `}`, 403, "", ""},

	{"create for several users", "POST", "configmaps", "", `{"metadata":{"name":"shared-0"}}`, 201, "", ""},
	{"create more for several users", "POST", "configmaps", "", `{"metadata":{"name":"shared-1"}}`, 201, "", ""},
	{"not allowed", "POST", "configmaps", "", `{"metadata":{"name":"x"}}`, 403, "", "mallory"},
	{"not decodable", "POST", "configmaps", "", `{"metadata":1}`, 400, "", ""},
	{"not there", "DELETE", "configmaps/nothing", "", "", 404, recorded.UnknownBase, ""},
	{"conflict", "PUT", "configmaps/applied", "", `{"metadata":{"name":"applied","resourceVersion":"1"}}`, 409,
		recorded.UnknownBase, ""},
	{"invalid", "POST", "configmaps", "", `{"metadata":{"name":"Not Valid"}}`, 422, "", ""},
}

// eventually has the steps that wait for what the server sees a moment after it is stored: a kind, a
// namespace's service account, a policy, a quota.
var eventually = map[string]bool{"create a custom object": true, "create a pod": true, "refused by a policy": true,
	"refused by a policy with a reason": true, "refused by a quota": true}

const policies = "/apis/admissionregistration.k8s.io/v1/"

const lamps = "/apis/example.com/v1/namespaces/replay/lamps"

// outcome returns how the step ends, or "" if the server may answer one way or another.
func (s step) outcome() recorded.Outcome {
	switch {
	case s.code == 0 || eventually[s.name] && s.code < 300:
		return ""
	case s.code < 300:
		return recorded.Admitted
	case strings.HasPrefix(s.name, "refused"):
		return recorded.Refused
	}
	return recorded.NoNews
}

// reachesAdmission reports whether the step's request is among the writes.
func (s step) reachesAdmission() bool { return s.code != http.StatusBadRequest && s.user != "mallory" }

var made bool

// makeRequests makes the requests, once, and returns why steps can't be judged by the audit log, by
// their names.
func makeRequests(t *testing.T) map[string]recorded.Reason {
	t.Helper()
	unjudged := map[string]recorded.Reason{}
	for _, s := range steps {
		if s.unjudged != "" {
			unjudged[s.name] = s.unjudged
		}
	}
	if made {
		return unjudged
	}
	made = true
	for _, s := range steps {
		code, answer := s.send(t)
		for end := time.Now().Add(20 * time.Second); eventually[s.name] && code != s.code && time.Now().Before(end); {
			time.Sleep(20 * time.Millisecond)
			code, answer = s.send(t)
		}
		if s.code != 0 && code != s.code {
			t.Fatalf("%s: code %d: %s", s.name, code, answer)
		}
	}
	makeConcurrentRequests(t)
	makeLast(t)
	return unjudged
}

// send sends the request as its user.
func (s step) send(t *testing.T) (int, string) {
	t.Helper()
	config := servertest.Quick(cluster.Config)
	switch s.user {
	case "":
	case "mallory":
		config = cluster.As(s.user)
	default:
		config = cluster.As(s.user, "system:masters", "testers")
		config.Impersonate.UID, config.Impersonate.Extra = "uid-"+s.user, map[string][]string{"scopes": {"a", "b"}}
	}
	config.UserAgent = "step " + s.name
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	path := s.path
	if !strings.HasPrefix(path, "/") {
		path = "/api/v1/namespaces/replay/" + path
	}
	request, err := http.NewRequestWithContext(t.Context(), s.method, config.Host+path, strings.NewReader(s.body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	if s.contentType != "" {
		request.Header.Set("Content-Type", s.contentType)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	beginning := make([]byte, 2000)
	n, _ := response.Body.Read(beginning) // for a message
	return response.StatusCode, string(beginning[:n])
}

// makeConcurrentRequests changes the same objects for several users at once, so that events aren't
// always written in the order in which the changes were stored.
func makeConcurrentRequests(t *testing.T) {
	t.Helper()
	var users sync.WaitGroup
	for i := range 8 {
		users.Go(func() {
			user := fmt.Sprintf("user-%d", i)
			for j := range 20 {
				object := fmt.Sprintf("configmaps/shared-%d", j%2)
				s := step{name: "concurrent " + user, method: http.MethodPatch, path: object, user: user, contentType: mergePatch,
					body: fmt.Sprintf(`{"data":{"%s":"%d"}}`, user, j)}
				if j%5 == 4 {
					s.path, s.contentType = object+"?force=true&fieldManager="+user, applyPatch
					s.body = fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"shared-%d"},"data":{"applied":"%s"}}`,
						j%2, user)
				}
				if code, answer := s.send(t); code != http.StatusOK {
					t.Errorf("%s: code %d: %s", s.name, code, answer)
				}
			}
		})
	}
	users.Wait()
}

// lastName is the name of the object of the last request.
const lastName = "the-last-one"

func makeLast(t *testing.T) {
	t.Helper()
	if _, err := cluster.Client.CoreV1().ConfigMaps("default").Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: lastName}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// plain returns data as encoding/json decodes it.
func plain(t *testing.T, object map[string]any) map[string]any {
	t.Helper()
	data, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}
