// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package workloads_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"gatehouse.dev/test/servertest"
)

// selected is a workload's spec but for the number of its pods.
const selected = `selector: {matchLabels: {app: web}}, template: ` + template

// The pods of a Deployment are made by its ReplicaSet's controller, as itself, and pass admission.
// What a kubelet says of them is in the Deployment's status.
func TestDeployment(t *testing.T) {
	t.Parallel()
	c := cluster()
	ns := c.Namespace(t, nil)
	create(t, c.Client.AppsV1().Deployments(ns).Create, `{metadata: {name: web}, spec: {replicas: 2, `+selected+`}}`)
	pods := awaitPods(t, ns, 2)
	for i, pod := range pods {
		if policy := pod.Spec.Containers[0].ImagePullPolicy; policy != corev1.PullAlways {
			t.Errorf("AlwaysPullImages left %s", policy)
		}
		if owner := metav1.GetControllerOf(&pod); owner == nil || owner.Kind != "ReplicaSet" {
			t.Errorf("the pod's owner is %v", owner)
		}
		report(t, pod, ready(fmt.Sprintf("10.0.0.%d", i+1)))
	}
	servertest.Retry(t, "the Deployment to be available", func() error {
		d, err := c.Client.AppsV1().Deployments(ns).Get(t.Context(), "web", metav1.GetOptions{})
		if err == nil && d.Status.AvailableReplicas != 2 {
			err = fmt.Errorf("its status is %+v", d.Status)
		}
		return err
	})
	why := c.Kubectl(t, ns).OK("", "get", "decisions", "--output="+
		`jsonpath={range .items[?(@.request.resource=="pods")]}{.request.user.username}{"\n"}{end}`)
	if maker := "system:serviceaccount:kube-system:replicaset-controller"; !strings.Contains(why, maker) {
		t.Errorf("pods are to be made by %s, and were by\n%s", maker, why)
	}
}

// Where admission refuses its pods a workload says so, and by which words.
func TestRefusedPods(t *testing.T) {
	t.Parallel()
	c := cluster()
	// Its label isn't added later: for a moment admission would see the namespace without.
	ns := create(t, c.Client.CoreV1().Namespaces().Create,
		`{metadata: {generateName: test-, labels: {pod-security.kubernetes.io/enforce: restricted}}}`).Name
	apps, batch, core := c.Client.AppsV1(), c.Client.BatchV1(), c.Client.CoreV1()
	node(t, "refused")
	create(t, apps.Deployments(ns).Create, `{metadata: {name: web}, spec: {`+selected+`}}`)
	create(t, apps.StatefulSets(ns).Create, `{metadata: {name: web}, spec: {serviceName: web, `+selected+`}}`)
	create(t, apps.DaemonSets(ns).Create, `{metadata: {name: web}, spec: {`+selected+`}}`)
	create(t, core.ReplicationControllers(ns).Create,
		`{metadata: {name: web}, spec: {replicas: 1, selector: {app: web}, template: `+template+`}}`)
	create(t, batch.Jobs(ns).Create, `{metadata: {name: web}, spec: {template:
		{spec: {restartPolicy: Never, containers: [{name: main, image: "registry.example/main:1"}]}}}}`)
	for _, kind := range []string{"ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController", "Job"} {
		servertest.Retry(t, "the event of a "+kind, func() error {
			events, err := core.Events(ns).List(t.Context(),
				metav1.ListOptions{FieldSelector: "reason=FailedCreate,involvedObject.kind=" + kind})
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
				return strings.Contains(e.Message, `violates PodSecurity "restricted:latest"`)
			}) {
				return fmt.Errorf("there are %d", len(events.Items))
			}
			return nil
		})
	}
	servertest.Retry(t, "the Deployment to say why", func() error {
		d, err := apps.Deployments(ns).Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range d.Status.Conditions {
			if condition.Type == "ReplicaFailure" && strings.Contains(condition.Message, "violates PodSecurity") {
				return nil
			}
		}
		return fmt.Errorf("its status is %+v", d.Status)
	})
	awaitPods(t, ns, 0)
}

// A StatefulSet makes its pods one after the other, each with a claim.
func TestStatefulSet(t *testing.T) {
	t.Parallel()
	c := cluster()
	ns := c.Namespace(t, nil)
	create(t, c.Client.AppsV1().StatefulSets(ns).Create, `{metadata: {name: web}, spec: {replicas: 2, serviceName: web,
		`+selected+`, volumeClaimTemplates: [{metadata: {name: data}, spec:
		{accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]}}`)
	first := awaitPods(t, ns, 1)[0]
	if first.Name != "web-0" {
		t.Errorf("the first pod is %s", first.Name)
	}
	report(t, first, ready("10.0.1.1"))
	awaitPods(t, ns, 2)
	for _, name := range []string{"data-web-0", "data-web-1"} {
		if _, err := c.Client.CoreV1().PersistentVolumeClaims(ns).Get(t.Context(), name,
			metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	}
}

// A pod gets the claims that it has templates for, as far as the quota of its namespace has room.
func TestClaimsOfPods(t *testing.T) {
	t.Parallel()
	c := cluster()
	ns := c.Namespace(t, nil)
	class := ns + ".example.com"
	create(t, c.Client.ResourceV1().DeviceClasses().Create, `{metadata: {name: `+class+`}}`)
	create(t, c.Client.ResourceV1().ResourceClaimTemplates(ns).Create, `{metadata: {name: one}, spec: {spec: {devices: {
		requests: [{name: r, exactly: {deviceClassName: `+class+`}}]}}}}`)
	create(t, c.Client.CoreV1().ResourceQuotas(ns).Create, `{metadata: {name: q}, spec: {hard: {
		`+class+`.deviceclass.resource.k8s.io/devices: "1", requests.storage: 2Gi}}}`)
	pods := c.Client.CoreV1().Pods(ns)
	for _, name := range []string{"a", "b"} {
		create(t, pods.Create, `{metadata: {name: `+name+`}, spec: {resourceClaims: [{name: g, resourceClaimTemplateName: one}],
			containers: [{name: c, image: i, resources: {claims: [{name: g}]}}], volumes: [{name: v, ephemeral: {
			volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 2Gi}}}}}}]}}`)
	}
	servertest.Retry(t, "events of refused claims", func() error {
		claims, err := c.Client.ResourceV1().ResourceClaims(ns).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		volumes, err := c.Client.CoreV1().PersistentVolumeClaims(ns).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		events, err := c.Client.CoreV1().Events(ns).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		refused := 0
		for _, e := range events.Items {
			if strings.Contains(e.Message, "exceeded quota: q") {
				refused++
			}
		}
		if len(claims.Items) != 1 || len(volumes.Items) != 1 || refused < 2 {
			return fmt.Errorf("%d resource claims, %d volume claims, %d refusals", len(claims.Items), len(volumes.Items), refused)
		}
		return nil
	})
}

// A DaemonSet makes a pod for every node of its own, and deletes it when the node is none any more.
func TestDaemonSet(t *testing.T) {
	t.Parallel()
	c := cluster()
	ns := c.Namespace(t, nil)
	node(t, "daemons")
	create(t, c.Client.AppsV1().DaemonSets(ns).Create, `{metadata: {name: web}, spec: {
		selector: {matchLabels: {app: web}},
		template: {metadata: {labels: {app: web}}, spec: {nodeSelector: {for: daemons},
		containers: [{name: main, image: "registry.example/main:1"}]}}}}`)
	pod := awaitPods(t, ns, 1)[0]
	terms := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	if got := terms[0].MatchFields[0].Values; !slices.Equal(got, []string{"daemons"}) {
		t.Errorf("the pod is for the nodes %q", got)
	}
	bind(t, pod, "daemons")
	if _, err := c.Client.CoreV1().Nodes().Patch(t.Context(), "daemons", types.MergePatchType,
		[]byte(`{"metadata": {"labels": {"for": "others"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitPods(t, ns, 0)
}

// A ReplicationController has as many pods as it says.
func TestReplicationController(t *testing.T) {
	t.Parallel()
	c := cluster()
	ns := c.Namespace(t, nil)
	create(t, c.Client.CoreV1().ReplicationControllers(ns).Create,
		`{metadata: {name: web}, spec: {replicas: 3, selector: {app: web}, template: `+template+`}}`)
	awaitPods(t, ns, 3)
	if _, err := c.Client.CoreV1().ReplicationControllers(ns).Patch(t.Context(), "web", types.MergePatchType,
		[]byte(`{"spec": {"replicas": 1}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitPods(t, ns, 1)
}

// A CronJob whose time has come makes a Job, this a pod; when that has ended so has the Job, and
// goes with its pod when its time is over.
func TestCronJob(t *testing.T) {
	t.Parallel()
	c := cluster()
	ns := c.Namespace(t, nil)
	crons, jobs := c.Client.BatchV1().CronJobs(ns), c.Client.BatchV1().Jobs(ns)
	// With Forbid the next minute, which may begin at any moment, brings no second one.
	cron := create(t, crons.Create, `{metadata: {name: web}, spec: {schedule: "* * * * *", suspend: true,
		concurrencyPolicy: Forbid, jobTemplate: {spec: {ttlSecondsAfterFinished: 0, template: {metadata: {labels: {app: web}}, spec:
		{restartPolicy: Never, containers: [{name: main, image: "registry.example/main:1"}]}}}}}}`)
	// It last ran a while ago: nobody has to wait for the next minute.
	cron.Status.LastScheduleTime = &metav1.Time{Time: time.Now().Add(-90 * time.Second)}
	cron, err := crons.UpdateStatus(t.Context(), cron, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	no := false
	cron.Spec.Suspend = &no
	if _, err := crons.Update(t.Context(), cron, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := awaitPods(t, ns, 1)[0]
	owner := metav1.GetControllerOf(&pod)
	if owner == nil || owner.Kind != "Job" {
		t.Fatalf("the pod's owner is %v", owner)
	}
	// The next minute's is not waited for.
	yes := true
	servertest.Retry(t, "the CronJob's suspension", func() error {
		cron, err := crons.Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		cron.Spec.Suspend = &yes
		_, err = crons.Update(t.Context(), cron, metav1.UpdateOptions{})
		return err
	})
	report(t, pod, corev1.PodStatus{Phase: corev1.PodSucceeded})
	servertest.Eventually(t, "the end of the Job", func() bool {
		_, err := jobs.Get(t.Context(), owner.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	awaitPods(t, ns, 0)
}

// The EndpointSlice of a Service has the pods that are ready, and a PodDisruptionBudget counts
// them: an eviction passes as long as enough remain.
func TestReadyPods(t *testing.T) {
	t.Parallel()
	c := cluster()
	ns := c.Namespace(t, nil)
	node(t, "endpoints")
	create(t, c.Client.CoreV1().Services(ns).Create,
		`{metadata: {name: web}, spec: {selector: {app: web}, ports: [{port: 80}]}}`)
	create(t, c.Client.PolicyV1().PodDisruptionBudgets(ns).Create,
		`{metadata: {name: web}, spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}}`)
	create(t, c.Client.AppsV1().ReplicaSets(ns).Create, `{metadata: {name: web}, spec: {replicas: 1, `+selected+`}}`)
	pod := awaitPods(t, ns, 1)[0]
	report(t, bind(t, pod, "endpoints"), ready("10.0.2.1"))
	servertest.Retry(t, "the pod's endpoint", func() error {
		slices, err := c.Client.DiscoveryV1().EndpointSlices(ns).List(t.Context(),
			metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=web"})
		if err != nil {
			return err
		}
		for _, slice := range slices.Items {
			for _, endpoint := range slice.Endpoints {
				if endpoint.TargetRef.Name == pod.Name && endpoint.Addresses[0] == "10.0.2.1" &&
					*endpoint.Conditions.Ready {
					return nil
				}
			}
		}
		return fmt.Errorf("the Service's slices are %+v", slices.Items)
	})
	servertest.Retry(t, "the budget's count", func() error {
		budget, err := c.Client.PolicyV1().PodDisruptionBudgets(ns).Get(t.Context(), "web", metav1.GetOptions{})
		if err == nil && (budget.Status.CurrentHealthy != 1 || budget.Status.DisruptionsAllowed != 0) {
			err = fmt.Errorf("its status is %+v", budget.Status)
		}
		return err
	})
	err := c.Client.CoreV1().Pods(ns).EvictV1(t.Context(),
		&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: pod.Name}})
	if !apierrors.IsTooManyRequests(err) {
		t.Errorf("the eviction of the last pod: %v", err)
	}
}
