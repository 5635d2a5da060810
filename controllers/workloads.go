// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/dynamic"
	corev1informers "k8s.io/client-go/informers/core/v1"
	schedulinginformers "k8s.io/client-go/informers/scheduling/v1beta1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/scale"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-controller-manager/names"
	"k8s.io/kubernetes/pkg/controller/cronjob"
	"k8s.io/kubernetes/pkg/controller/daemon"
	"k8s.io/kubernetes/pkg/controller/deployment"
	"k8s.io/kubernetes/pkg/controller/disruption"
	"k8s.io/kubernetes/pkg/controller/endpointslice"
	"k8s.io/kubernetes/pkg/controller/job"
	"k8s.io/kubernetes/pkg/controller/replicaset"
	"k8s.io/kubernetes/pkg/controller/replication"
	"k8s.io/kubernetes/pkg/controller/resourceclaim"
	"k8s.io/kubernetes/pkg/controller/statefulset"
	"k8s.io/kubernetes/pkg/controller/ttlafterfinished"
	"k8s.io/kubernetes/pkg/controller/volume/ephemeral"
	"k8s.io/kubernetes/pkg/features"
)

// Workloads is the name in --controllers for the controllers that make pods, and for those that
// depend on the existing pods. They are off by default: no pod runs here, and a server is smaller
// without them. With them an author of admission sees what becomes of the pods of a Deployment.
const Workloads = "workloads"

// workloads are these controllers, by name.
var workloads = []controller{
	{names.CronJobController, cronJobs},
	{names.DaemonSetController, daemonSets},
	{names.DeploymentController, deployments},
	{names.DisruptionController, disruptions},
	{names.EndpointSliceController, endpointSlices},
	{names.EphemeralVolumeController, ephemeralVolumes},
	{names.JobController, jobs},
	{names.ReplicaSetController, replicaSets},
	{names.ReplicationControllerController, replicationControllers},
	{names.ResourceClaimController, resourceClaims},
	{names.StatefulSetController, statefulSets},
	{names.TTLAfterFinishedController, finishedJobs},
}

// kube-controller-manager's defaults.
const (
	workers           = 5
	daemonSetWorkers  = 2
	disruptionWorkers = 1
	endpointsPerSlice = 100
	claimWorkers      = 50
	// A DaemonSet whose pods fail makes them again after this delay, doubled each time.
	daemonFirstRetry = time.Second
	daemonLastRetry  = 15 * time.Minute
	// scaledKinds is how often the kinds that a disruption budget may be for are discovered again.
	scaledKinds = 30 * time.Second
)

// WholePods reports whether the controllers that run need whole pods, and not only what
// podcache.Trim leaves.
func (o Options) WholePods() bool {
	return slices.ContainsFunc(workloads, func(c controller) bool {
		return c.name != names.CronJobController && c.name != names.TTLAfterFinishedController && o.Runs(c.name)
	})
}

// workerPool is a controller of upstream's that runs with a number of workers.
type workerPool interface {
	Run(ctx context.Context, workers int)
}

// runWorkers returns a function that runs a controller with a number of workers.
func runWorkers(workers int, c workerPool) func(context.Context) {
	return func(ctx context.Context) { c.Run(ctx, workers) }
}

// cronJobs makes Jobs.
func cronJobs(ctx context.Context, e *environment) (func(context.Context), error) {
	client, err := kubernetes.NewForConfig(e.clientConfig("cronjob-controller"))
	if err != nil {
		return nil, err
	}
	batch := e.informers.Batch().V1()
	c, err := cronjob.NewControllerV2(ctx, batch.Jobs(), batch.CronJobs(), client)
	if err != nil {
		return nil, err
	}
	return runWorkers(workers, c), nil
}

// finishedJobs deletes Jobs that have ended, when their time is over.
func finishedJobs(ctx context.Context, e *environment) (func(context.Context), error) {
	client, err := kubernetes.NewForConfig(e.clientConfig("ttl-after-finished-controller"))
	if err != nil {
		return nil, err
	}
	return runWorkers(workers, ttlafterfinished.New(ctx, e.informers.Batch().V1().Jobs(), client)), nil
}

// podClients returns what a controller of pods is built with: the client of its service account, and
// the cache of pods.
func (e *environment) podClients(account string) (kubernetes.Interface, corev1informers.PodInformer, error) {
	client, err := kubernetes.NewForConfig(e.clientConfig(account))
	if err != nil {
		return nil, nil, err
	}
	return client, e.pods(), nil
}

// daemonSets makes a pod for every node.
func daemonSets(ctx context.Context, e *environment) (func(context.Context), error) {
	client, pods, err := e.podClients("daemon-set-controller")
	if err != nil {
		return nil, err
	}
	apps := e.informers.Apps().V1()
	c, err := daemon.NewDaemonSetsController(ctx, apps.DaemonSets(), apps.ControllerRevisions(), pods,
		e.informers.Core().V1().Nodes(), client, flowcontrol.NewBackOff(daemonFirstRetry, daemonLastRetry))
	if err != nil {
		return nil, err
	}
	return runWorkers(daemonSetWorkers, c), nil
}

// deployments makes ReplicaSets.
func deployments(ctx context.Context, e *environment) (func(context.Context), error) {
	client, pods, err := e.podClients("deployment-controller")
	if err != nil {
		return nil, err
	}
	apps := e.informers.Apps().V1()
	c, err := deployment.NewDeploymentController(ctx, apps.Deployments(), apps.ReplicaSets(), pods, client)
	if err != nil {
		return nil, err
	}
	return runWorkers(workers, c), nil
}

// disruptions counts how many pods of a PodDisruptionBudget may be evicted.
func disruptions(ctx context.Context, e *environment) (func(context.Context), error) {
	const account = "disruption-controller"
	client, pods, err := e.podClients(account)
	if err != nil {
		return nil, err
	}
	mapper := newMapper(client)
	scales, err := scale.NewForConfig(e.clientConfig(account), mapper, dynamic.LegacyAPIPathResolverFunc,
		scale.NewDiscoveryScaleKindResolver(client.Discovery()))
	if err != nil {
		return nil, err
	}
	core, apps := e.informers.Core().V1(), e.informers.Apps().V1()
	c := disruption.NewDisruptionController(ctx, pods, e.informers.Policy().V1().PodDisruptionBudgets(),
		core.ReplicationControllers(), apps.ReplicaSets(), apps.Deployments(), apps.StatefulSets(), client, mapper,
		scales, client.Discovery())
	return func(ctx context.Context) {
		var running sync.WaitGroup
		running.Go(func() { c.Run(ctx, disruptionWorkers) })
		running.Go(func() { wait.UntilWithContext(ctx, func(context.Context) { mapper.Reset() }, scaledKinds) })
		running.Wait()
	}, nil
}

// endpointSlices makes the EndpointSlices of Services.
func endpointSlices(ctx context.Context, e *environment) (func(context.Context), error) {
	client, pods, err := e.podClients("endpointslice-controller")
	if err != nil {
		return nil, err
	}
	core := e.informers.Core().V1()
	c := endpointslice.NewController(ctx, pods, core.Services(), core.Nodes(),
		e.informers.Discovery().V1().EndpointSlices(), endpointsPerSlice, client, 0)
	return runWorkers(workers, c), nil
}

// ephemeralVolumes makes the claims of pods' generic ephemeral volumes.
func ephemeralVolumes(ctx context.Context, e *environment) (func(context.Context), error) {
	client, pods, err := e.podClients("ephemeral-volume-controller")
	if err != nil {
		return nil, err
	}
	c, err := ephemeral.NewController(ctx, client, pods, e.informers.Core().V1().PersistentVolumeClaims())
	if err != nil {
		return nil, err
	}
	return runWorkers(workers, c), nil
}

// jobs makes the pods of Jobs.
func jobs(ctx context.Context, e *environment) (func(context.Context), error) {
	client, pods, err := e.podClients("job-controller")
	if err != nil {
		return nil, err
	}
	var workloads schedulinginformers.WorkloadInformer
	var groups schedulinginformers.PodGroupInformer
	if utilfeature.DefaultFeatureGate.Enabled(features.WorkloadWithJob) {
		scheduling := e.informers.Scheduling().V1beta1()
		workloads, groups = scheduling.Workloads(), scheduling.PodGroups()
	}
	c, err := job.NewController(ctx, client, pods, e.informers.Batch().V1().Jobs(), workloads, groups)
	if err != nil {
		return nil, err
	}
	return runWorkers(workers, c), nil
}

// replicaSets makes the pods of ReplicaSets.
func replicaSets(ctx context.Context, e *environment) (func(context.Context), error) {
	client, pods, err := e.podClients("replicaset-controller")
	if err != nil {
		return nil, err
	}
	return runWorkers(workers, replicaset.NewReplicaSetController(ctx, e.informers.Apps().V1().ReplicaSets(), pods, client,
		replicaset.BurstReplicas)), nil
}

// replicationControllers makes the pods of ReplicationControllers.
func replicationControllers(ctx context.Context, e *environment) (func(context.Context), error) {
	client, pods, err := e.podClients("replication-controller")
	if err != nil {
		return nil, err
	}
	return runWorkers(workers, replication.NewReplicationManager(ctx, pods,
		e.informers.Core().V1().ReplicationControllers(), client, replication.BurstReplicas)), nil
}

// resourceClaims makes the resource claims of pods that name a template.
func resourceClaims(ctx context.Context, e *environment) (func(context.Context), error) {
	client, pods, err := e.podClients("resource-claim-controller")
	if err != nil {
		return nil, err
	}
	resource := e.informers.Resource().V1()
	c, err := resourceclaim.NewController(klog.FromContext(ctx), client, pods, e.informers.Scheduling().V1beta1().PodGroups(),
		resource.ResourceClaims(), resource.ResourceClaimTemplates())
	if err != nil {
		return nil, err
	}
	return runWorkers(claimWorkers, c), nil
}

// statefulSets makes the pods of StatefulSets, and their claims.
func statefulSets(ctx context.Context, e *environment) (func(context.Context), error) {
	client, pods, err := e.podClients("statefulset-controller")
	if err != nil {
		return nil, err
	}
	apps := e.informers.Apps().V1()
	return runWorkers(workers, statefulset.NewStatefulSetController(ctx, pods, apps.StatefulSets(),
		e.informers.Core().V1().PersistentVolumeClaims(), apps.ControllerRevisions(), client)), nil
}
