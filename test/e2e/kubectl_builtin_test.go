// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"gatehouse.dev/test/needs"
)

const web = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: nginx, image: "nginx:1"}]}
`

func TestKubectlServer(t *testing.T) {
	t.Parallel()
	k := onShared(t, "default")
	k.says("version", "Client Version: "+kubernetesVersion, "Server Version: "+kubernetesVersion+"+gatehouse")
	k.says("cluster-info", "Kubernetes control plane", "is running at", "https://127.0.0.1:")
	k.says("get --raw /readyz?verbose", "readyz check passed")
	k.says("api-resources --no-headers",
		"configmaps cm v1 true ConfigMap", "deployments deploy apps/v1 true Deployment",
		"customresourcedefinitions crd,crds apiextensions.k8s.io/v1 false")
	k.says("api-resources --namespaced=false -o name", "nodes", "namespaces", "clusterroles.rbac.authorization.k8s.io")
	k.says("api-resources --api-group=batch -o wide", "cronjobs", "CronJob",
		"create,delete,deletecollection,get,list,patch,update,watch")
	versions := k.ok("api-versions")
	for _, version := range []string{"v1", "apps/v1", "autoscaling/v1", "autoscaling/v2", "batch/v1",
		"apiextensions.k8s.io/v1",
		"apiregistration.k8s.io/v1", "admissionregistration.k8s.io/v1", "resource.k8s.io/v1"} {
		if !strings.Contains("\n"+versions, "\n"+version+"\n") {
			t.Errorf("api-versions lacks %s:\n%s", version, versions)
		}
	}
	// Kubernetes', that is: what is recorded of requests has no counterpart there.
	asked := strings.ReplaceAll(versions, "decisions.gatehouse.dev/v1alpha1\n", "")
	if strings.Contains(asked, "beta") || strings.Contains(asked, "alpha") {
		t.Errorf("a server serves betas or alphas that nobody asked for:\n%s", versions)
	}
	k.says("explain pod.spec.containers.image", "KIND:       Pod", "FIELD: image <string>", "Container image name")
	k.says("explain deployments --recursive", "GROUP:      apps", "maxSurge\t<IntOrString>")
	k.says("explain hpa.spec.metrics --api-version=autoscaling/v2", "VERSION:    v2", "<[]MetricSpec>")
	k.fails("explain pod.spec.nosuch", `field "nosuch" does not exist`)
	k.says("get namespaces -o name", "namespace/default", "namespace/kube-system", "namespace/kube-public",
		"namespace/kube-node-lease")
	k.says("get service kubernetes -o wide", "10.96.0.1", "443/TCP")
	k.fails("get nosuch", `the server doesn't have a resource type "nosuch"`)
}

// An object's life as kubectl's user sees it.
func TestKubectlObject(t *testing.T) {
	t.Parallel()
	k := onShared(t, "object")
	k.with(web).says("apply -f -", "deployment.apps/web created")
	k.with(web).says("apply -f -", "deployment.apps/web unchanged")
	k.with(strings.Replace(web, "replicas: 2", "replicas: 3", 1)).says("apply -f -", "deployment.apps/web configured")

	k.says("get deployment web", "NAME   READY   UP-TO-DATE   AVAILABLE   AGE", "web    0/3")
	k.says("get deploy -o wide -l app=web", "CONTAINERS   IMAGES    SELECTOR", "nginx        nginx:1   app=web")
	k.says("get deploy web -o yaml", "revisionHistoryLimit: 10", "terminationGracePeriodSeconds: 30", "maxSurge: 25%",
		"kubectl.kubernetes.io/last-applied-configuration")
	k.says("get deploy,cm -A -l app=web -o name", "deployment.apps/web")
	k.has("deployment/web", "{.spec.template.spec.containers[0].imagePullPolicy}", "IfNotPresent")
	var object struct {
		Kind     string
		Metadata struct{ Generation int }
	}
	if err := json.Unmarshal([]byte(k.ok("get deploy web -o json")), &object); err != nil ||
		object.Kind != "Deployment" || object.Metadata.Generation != 2 {
		t.Errorf("-o json: %+v, %v", object, err)
	}
	k.says("get deploy -o custom-columns=N:.metadata.name,R:.spec.replicas", "N     R\nweb   3\n")
	k.says("describe deployment web", "Name:                   web", "3 desired",
		"StrategyType:           RollingUpdate", "Image:         nginx:1")

	k.says("label deployment web tier=front", "deployment.apps/web labeled")
	k.fails("label deployment web tier=back", "--overwrite")
	k.says("label deployment web tier=back --overwrite", "labeled")
	k.says("annotate deployment web note=kept", "deployment.apps/web annotated")
	k.has("deployment/web", "{.metadata.labels.tier} {.metadata.annotations.note}", "back kept")
	k.says("label deployment web tier-", "unlabeled")

	k.says("scale deployment web --replicas=5 --current-replicas=3", "deployment.apps/web scaled")
	k.fails("scale deployment web --replicas=6 --current-replicas=3", "Expected replicas to be 3, was 5")
	k.says("set image deployment/web nginx=nginx:2", "image updated")
	k.says(`patch deployment web -p {"spec":{"template":{"spec":{"containers":[{"name":"side","image":"side:1"}]}}}}`,
		"patched")
	k.says(`patch deployment web --type=merge -p {"spec":{"paused":true}}`, "patched")
	k.says(`patch deployment web --type=json -p `+
		`[{"op":"replace","path":"/spec/minReadySeconds","value":7},{"op":"test","path":"/spec/paused","value":true}]`,
		"patched")
	k.says(`patch deployment web --type=merge -p {"spec":{"paused":true}}`, "patched (no change)")
	k.has("deployment/web", "{.spec.replicas} {.spec.minReadySeconds} {.spec.template.spec.containers[*].image}",
		"5 7 side:1 nginx:2")

	k.editor("s/replicas: 5/replicas: 4/").says("edit deployment web", "deployment.apps/web edited")
	k.editor("s/nothing/at all/").says("edit deployment web")
	k.has("deployment/web", "{.spec.replicas}", "4")
	k.editor("s/  replicas: 4/  replicas: -4/").fails("edit deployment web", `deployments.apps "web" is invalid`,
		"Edit cancelled, no valid changes were saved")
	k.has("deployment/web", "{.spec.replicas}", "4")

	k.says("delete deployment web", `deployment.apps "web" deleted from object namespace`)
	k.fails("get deployment web", `Error from server (NotFound): deployments.apps "web" not found`)
	k.fails("delete deployment web", `NotFound`)
	k.says("delete deployment web --ignore-not-found")
}

func TestKubectlDiff(t *testing.T) {
	t.Parallel()
	needs.Programs(t, "diff")
	k := onShared(t, "diff")
	k.with(web).fails("diff -f -", "+kind: Deployment", "+  replicas: 2")
	k.fails("get deployment web", "NotFound") // a diff is a dry run
	k.with(web).says("apply -f -", "created")
	if out := k.with(web).ok("diff -f -"); out != "" {
		t.Errorf("a difference where there is none:\n%s", out)
	}
	k.with(strings.Replace(web, "replicas: 2", "replicas: 9", 1)).fails("diff -f -", "-  replicas: 2", "+  replicas: 9")
	k.with(strings.Replace(web, "replicas: 2", "replicas: 8", 1)).fails("diff --server-side -f - --force-conflicts",
		"-  replicas: 2", "+  replicas: 8")
	k.has("deployment/web", "{.spec.replicas}", "2")
}

func TestKubectlServerSideApply(t *testing.T) {
	t.Parallel()
	k := onShared(t, "serverside")
	config := func(data string) kubectl {
		return k.with("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shared}\ndata: {" + data + "}\n")
	}
	config("a: one").says("apply --server-side --field-manager=first -f -", "configmap/shared serverside-applied")
	config("b: two").says("apply --server-side --field-manager=second -f -", "serverside-applied")
	config("a: three").fails("apply --server-side --field-manager=second -f -", `conflict with "first": .data.a`,
		"--force-conflicts")
	k.has("configmap/shared", "{.data}", `{"a":"one","b":"two"}`)
	config("a: three").says("apply --server-side --field-manager=second --force-conflicts -f -", "serverside-applied")
	// b was second's, which no longer wants it
	k.has("configmap/shared", "{.data}", `{"a":"three"}`)
	k.says("get configmap shared -o yaml --show-managed-fields", "manager: second", "operation: Apply", "f:a: {}")
	config("").says("apply --server-side --field-manager=second -f -", "serverside-applied")
	k.has("configmap/shared", "{.data}", "")

	k.with(web).says("apply -f -", "created")
	// takes over from client-side
	k.with(strings.Replace(web, "replicas: 2", "replicas: 4", 1)).says("apply --server-side -f -", "serverside-applied")
	k.has("deployment/web", "{.spec.replicas}", "4")
	k.with(strings.Replace(web, "  replicas: 2\n", "", 1)).says("apply --server-side -f -", "serverside-applied")
	k.has("deployment/web", "{.spec.replicas}", "1") // the default again
}

func TestKubectlWait(t *testing.T) {
	t.Parallel()
	k := onShared(t, "waiting")
	k.with(web).says("apply -f -", "created")
	// Three seconds: where kubectl hasn't asked yet when they are over, it tells of its own rate
	// limiter.
	k.fails("wait --for=condition=Available deployment/web --timeout=3s", "timed out waiting for the condition")
	k.waitsWhile("wait --for=condition=Available deployment/web --timeout=100s", func() {
		k.says(`patch deployment web --subresource=status --type=merge -p `+
			`{"status":{"conditions":[{"type":"Available","status":"True","reason":"Test","message":""}]}}`, "patched")
	})
	k.waitsWhile("wait --for=jsonpath={.data.done}=yes configmap/later --for=create --timeout=100s", func() {
		k.says("create configmap later --from-literal=done=yes", "created")
	})
	k.waitsWhile("wait --for=jsonpath={.data.done}=no configmap/later --timeout=100s", func() {
		k.says(`patch configmap later -p {"data":{"done":"no"}}`, "patched")
	})
	k.waitsWhile("wait --for=delete configmap/later --timeout=100s",
		func() { k.says("delete configmap later", "deleted") })
	k.fails("wait --for=delete deployment/web --timeout=3s", "timed out")
}

func TestKubectlWatch(t *testing.T) {
	t.Parallel()
	k := onShared(t, "watching")
	k.says("create configmap early", "created")
	p := k.begin("get configmaps -w --output-watch-events --no-headers")
	saw := func(event string) {
		t.Helper()
		if _, err := p.await(p.stdout, event, kubectlTimeout); err != nil {
			t.Fatal(err)
		}
	}
	saw(`ADDED +early`)
	k.says("create configmap late", "created")
	saw(`ADDED +late`)
	k.says("label configmap early seen=yes", "labeled")
	saw(`MODIFIED +early`)
	k.says("delete configmap late", "deleted")
	saw(`DELETED +late`)
}

func TestKubectlCreate(t *testing.T) {
	t.Parallel()
	k := onShared(t, "creating")
	for _, test := range []struct{ create, object, path, want string }{
		{"deployment app --image=app:1 --replicas=3 --port=80", "deployment/app",
			"{.spec.replicas}{.spec.template.spec.containers[0].ports[0].containerPort}", "380"},
		{"configmap conf --from-literal=a=b", "configmap/conf", "{.data.a}", "b"},
		{"secret generic pass --from-literal=word=open", "secret/pass", "{.type} {.data.word}", "Opaque b3Blbg=="},
		{"serviceaccount robot", "serviceaccount/robot", "{.metadata.name}", "robot"},
		{"role reader --verb=get,list --resource=configmaps", "role/reader", "{.rules[0].verbs}", `["get","list"]`},
		{"rolebinding robots-read --role=reader --serviceaccount=creating:robot", "rolebinding/robots-read",
			"{.roleRef.kind} {.subjects[0].name}", "Role robot"},
		{"clusterrole creating --verb=get --non-resource-url=/logs/*", "clusterrole/creating",
			"{.rules[0].nonResourceURLs[0]}", "/logs/*"},
		{"job once --image=job:1", "job/once", "{.spec.backoffLimit} {.spec.completionMode}", "6 NonIndexed"},
		{"cronjob often --image=job:1 --schedule=*/5_*_*_*_*", "cronjob/often", "{.spec.schedule}", "*/5 * * * *"},
		{"service nodeport front --tcp=80:8080", "service/front", "{.spec.type} {.spec.ports[0].targetPort}",
			"NodePort 8080"},
		{"ingress door --rule=example.com/*=front:80", "ingress/door", "{.spec.rules[0].host}", "example.com"},
		{"quota few --hard=pods=2", "resourcequota/few", "{.spec.hard.pods}", "2"},
		{"poddisruptionbudget safe --selector=app=app --min-available=1", "pdb/safe", "{.spec.minAvailable}", "1"},
		{"priorityclass creating --value=5", "priorityclass/creating", "{.value} {.preemptionPolicy}",
			"5 PreemptLowerPriority"},
	} {
		words := strings.Fields(test.create)
		for i := range words {
			words[i] = strings.ReplaceAll(words[i], "_", " ")
		}
		k.ok("create", words...)
		k.has(test.object, test.path, test.want)
	}
	k.says("run one --image=one:1", "pod/one created")
	k.has("pod/one", "{.status.phase} {.spec.serviceAccountName}", "Pending default")
	k.says("describe pod one", "Status:           Pending", "QoS Class:", "BestEffort")
	k.says("get pods", "one    0/1     Pending   0")
	k.says("expose deployment app --port=80", "service/app exposed")
	k.says("autoscale deployment app --min=1 --max=3", "autoscaled")
	k.says("get all", "pod/one", "deployment.apps/app", "job.batch/once", "cronjob.batch/often",
		"horizontalpodautoscaler.autoscaling/app")
	k.says("delete pod one --grace-period=0 --force", "deleted")

	// What the client, the server's decoder and the server's validation refuse.
	k.fails("create configmap conf", `configmaps "conf" already exists`)
	k.with(strings.Replace(web, "replicas: 2", "replicaz: 2", 1)).fails("create -f -",
		`strict decoding error: unknown field "spec.replicaz"`)
	k.with(strings.Replace(web, "replicas: 2", "replicas: two", 1)).fails("create -f -", "BadRequest",
		"json: cannot unmarshal")
	k.with(strings.Replace(web, "replicas: 2", "replicas: -2", 1)).fails("create -f -",
		`The Deployment "web" is invalid: spec.replicas: Invalid value: -2`)
	k.with(strings.Replace(web, "kind: Deployment", "kind: Deploymint", 1)).fails("create -f -",
		`no matches for kind "Deploymint" in version "apps/v1"`)
	k.with("metadata: {name: x}\n").fails("create -f -", "apiVersion not set")
	k.with(strings.Replace(web, "replicas: 2", "replicaz: 2",
		1)).says("create --validate=ignore --dry-run=server -o yaml -f -", "replicas: 1")
	_, warning, _ := k.with(strings.Replace(web, "replicas: 2", "replicaz: 2",
		1)).run("create --validate=warn --dry-run=server -f -")
	says(t, warning, `Warning: unknown field "spec.replicaz"`)
	k.fails("get deployment web", "NotFound")
}

func TestKubectlAuth(t *testing.T) {
	t.Parallel()
	k := onShared(t, "rights")
	k.says("auth can-i create pods", "yes")
	k.says("auth can-i * *", "yes")
	k.says("auth whoami", "kubernetes-admin", "system:masters", "system:authenticated")
	k.fails("auth can-i create pods --as=jane", "no")
	k.fails("get pods --as=jane",
		`pods is forbidden: User "jane" cannot list resource "pods" in API group "" in the namespace "rights"`)
	k.says("create role reader --verb=get,list --resource=pods,configmaps", "created")
	k.says("create rolebinding jane-reads --role=reader --user=jane", "created")
	k.says("create serviceaccount robot", "created")
	k.says("create rolebinding robot-reads --role=reader --serviceaccount=rights:robot", "created")
	eventually(t, kubectlTimeout, func(context.Context) error {
		if out, _, code := k.run("auth can-i list pods --as=jane"); code != 0 {
			return fmt.Errorf("exit code %d: %s", code, out)
		}
		return nil
	})
	k.fails("auth can-i delete pods --as=jane", "no")
	k.fails("auth can-i list pods --as=jane -n default", "no")
	k.says("auth can-i --list --as=jane", "pods", "[get list]", "selfsubjectreviews.authentication.k8s.io")
	k.says("get pods --as=jane", "")

	token := strings.TrimSpace(k.ok("create token robot --duration=10m"))
	if strings.Count(token, ".") != 2 {
		t.Fatalf("not a token: %s", token)
	}
	robot := k.as(token)
	robot.says("auth whoami", "system:serviceaccount:rights:robot", "system:serviceaccounts:rights")
	// The server's authorizer sees the binding a moment later, and a controller makes the ConfigMap.
	eventually(t, kubectlTimeout, func(context.Context) error {
		if out, errors, _ := robot.run("get configmaps"); !strings.Contains(out, "kube-root-ca.crt") {
			return fmt.Errorf("%s%s", out, errors)
		}
		return nil
	})
	robot.fails("delete configmap kube-root-ca.crt", "forbidden", "system:serviceaccount:rights:robot")
	// a used one is remembered for some seconds
	elsewhere := k.ok("create token robot --audience=https://kubernetes.default.svc.cluster.local")
	unused := k.as(strings.TrimSpace(elsewhere))
	k.says("delete serviceaccount robot", "deleted")
	// The server looks for the account in a cache, which shows it a moment longer.
	eventually(t, kubectlTimeout, func(context.Context) error {
		if out, _, code := unused.run("auth whoami"); code == 0 {
			return fmt.Errorf("the token still works:\n%s", out)
		}
		return nil
	})
	unused.fails("auth whoami", "You must be logged in to the server")
	k.as("nonsense").fails("get pods", "You must be logged in to the server (Unauthorized)")
}

// A deleted namespace empties and goes; dependents go with their owners.
func TestKubectlDelete(t *testing.T) {
	t.Parallel()
	k := onShared(t, "emptied")
	k.with(web).says("apply -f -", "created")
	k.says("create configmap held", "created")
	k.says(`patch configmap held --type=merge -p {"metadata":{"finalizers":["gatehouse.dev/hold"]}}`, "patched")
	k.says("create secret generic s", "created")
	k.says("delete namespace emptied --wait=false", `namespace "emptied" deleted`)
	k.says("wait --for=jsonpath={.status.phase}=Terminating namespace/emptied", "condition met")
	k.fails("create configmap late",
		"forbidden: unable to create new content in namespace emptied because it is being terminated")
	k.gone("deployment/web -n emptied")
	k.says(`wait --for=condition=NamespaceFinalizersRemaining namespace/emptied --timeout=100s`, "condition met")
	says(t, k.get("namespace emptied", "{.status.conditions[*].message}"), "gatehouse.dev/hold in 1 resource instances")
	k.waitsWhile("wait --for=delete namespace/emptied --timeout=100s", func() {
		k.says(`patch configmap held --type=merge -p {"metadata":{"finalizers":null}}`, "patched")
	})
	k.says("create namespace emptied", "created")
	k.fails("get deployment web", "NotFound")

	owner := func(name string) string {
		k.says("create configmap owner-"+name, "created")
		uid := k.get("configmap/owner-"+name, "{.metadata.uid}")
		// An owner that is deleted in the foreground waits for those that block it.
		k.with(fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: of-%s\n  ownerReferences: "+
			"[{apiVersion: v1, kind: ConfigMap, name: owner-%s, uid: %s, blockOwnerDeletion: true}]\n",
			name, name, uid)).says("create -f -", "created")
		return "owner-" + name
	}
	k.says("delete configmap "+owner("background"), "deleted")
	k.gone("configmap/of-background")
	k.says("delete --cascade=foreground configmap "+owner("foreground"), "deleted")
	k.fails("get configmap of-foreground", "NotFound")
	k.says("delete --cascade=orphan configmap "+owner("orphan"), "deleted")
	k.has("configmap/of-orphan", "{.metadata.ownerReferences}", "")
	k.says("delete configmap --all", "of-orphan")
}
