// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package node

import (
	"context"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
)

// retryInterval is how long a pod waits before it tries again what has failed.
const retryInterval = time.Second

// A pod is one that runs.
type pod struct {
	node    *Node
	object  *corev1.Pod // as it was when it was bound
	ip      netip.Addr
	dir     string
	sandbox *sandbox           // nil if no container has a program
	end     context.CancelFunc // ends the pod

	mu         sync.Mutex
	inits      []corev1.ContainerStatus
	containers []corev1.ContainerStatus
	started    metav1.Time
}

func newPod(n *Node, object *corev1.Pod, ip netip.Addr) *pod {
	p := &pod{node: n, object: object, ip: ip, dir: n.files(object), started: metav1.Now()}
	p.inits = waiting(object.Spec.InitContainers)
	p.containers = waiting(object.Spec.Containers)
	return p
}

// waiting returns the status of containers that haven't started.
func waiting(containers []corev1.Container) []corev1.ContainerStatus {
	var all []corev1.ContainerStatus
	for _, c := range containers {
		all = append(all, corev1.ContainerStatus{Name: c.Name, Image: c.Image, Started: new(false),
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}})
	}
	return all
}

// run runs the pod until its containers have ended, or until ctx ends because the pod is being
// deleted. It removes the object of a deleted pod while live lasts.
func (p *pod) run(ctx, live context.Context) {
	defer func() {
		if live.Err() == nil && ctx.Err() != nil {
			p.publish(live)
			p.node.remove(live, p.object)
		}
	}()
	if p.hasProgram() {
		defer func() {
			if p.sandbox != nil {
				p.sandbox.close()
			}
		}()
		if !p.prepare(ctx) {
			return
		}
	}
	p.publish(live)
	var running sync.WaitGroup
	defer running.Wait()
	for i := range p.object.Spec.InitContainers {
		c := &p.object.Spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			running.Go(func() { p.runContainer(ctx, live, c, &p.inits[i], corev1.RestartPolicyAlways) })
			continue
		}
		policy := p.object.Spec.RestartPolicy
		if policy == corev1.RestartPolicyAlways {
			policy = corev1.RestartPolicyOnFailure
		}
		if p.runContainer(ctx, live, c, &p.inits[i], policy) != 0 {
			return
		}
	}
	for i := range p.object.Spec.Containers {
		c := &p.object.Spec.Containers[i]
		running.Go(func() { p.runContainer(ctx, live, c, &p.containers[i], p.object.Spec.RestartPolicy) })
	}
}

// prepare makes the pod's sandbox and volumes. It tries again until it works, as a kubelet does: a
// Secret may be created after the pod that mounts it.
func (p *pod) prepare(ctx context.Context) bool {
	for {
		err := os.MkdirAll(p.dir, 0o755)
		if err == nil && p.sandbox == nil {
			p.sandbox, err = p.network()
		}
		if err == nil {
			err = p.writeVolumes(ctx)
		}
		if err == nil {
			return true
		}
		p.logf("%v", err)
		if !sleep(ctx, retryInterval) {
			return false
		}
	}
}

func (p *pod) logf(format string, args ...any) {
	p.node.logf("pod %s/%s: "+format, append([]any{p.object.Namespace, p.object.Name}, args...)...)
}

// change changes the status of a container, and reports the pod's to the API server.
func (p *pod) change(live context.Context, status *corev1.ContainerStatus, set func(*corev1.ContainerStatus)) {
	p.mu.Lock()
	set(status)
	p.mu.Unlock()
	p.publish(live)
}

// publish writes the pod's status to the API server.
func (p *pod) publish(live context.Context) {
	pods := p.node.client.CoreV1().Pods(p.object.Namespace)
	for attempt := 0; ; attempt++ {
		err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			object, err := pods.Get(live, p.object.Name, metav1.GetOptions{})
			if err != nil || object.UID != p.object.UID || isFinished(object.Status.Phase) {
				return err
			}
			p.setStatus(&object.Status, object.Generation)
			_, err = pods.UpdateStatus(live, object, metav1.UpdateOptions{})
			return err
		})
		if err == nil || apierrors.IsNotFound(err) || live.Err() != nil {
			return
		}
		p.logf("writing its status: %v", err)
		if attempt == 5 || !sleep(live, retryInterval) {
			return
		}
	}
}

// setStatus sets what a kubelet would set.
func (p *pod) setStatus(status *corev1.PodStatus, generation int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	status.Phase = p.phase()
	status.ObservedGeneration = generation
	status.StartTime = &p.started
	status.HostIP, status.HostIPs = firstIP.String(), []corev1.HostIP{{IP: firstIP.String()}}
	status.PodIP, status.PodIPs = p.ip.String(), []corev1.PodIP{{IP: p.ip.String()}}
	if p.object.Spec.HostNetwork {
		status.PodIP, status.PodIPs = firstIP.String(), []corev1.PodIP{{IP: firstIP.String()}}
	}
	status.InitContainerStatuses = slices.Clone(p.inits)
	status.ContainerStatuses = slices.Clone(p.containers)
	if status.QOSClass == "" {
		status.QOSClass = p.object.Status.QOSClass
	}
	ready := status.Phase == corev1.PodRunning
	for _, c := range p.containers {
		ready = ready && c.Ready
	}
	gates := ready
	for _, gate := range p.object.Spec.ReadinessGates {
		gates = gates && slices.ContainsFunc(status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == gate.ConditionType && c.Status == corev1.ConditionTrue
		})
	}
	initialized := !slices.ContainsFunc(p.inits, func(c corev1.ContainerStatus) bool {
		return !c.Ready
	})
	setCondition(status, generation, corev1.PodReadyToStartContainers, status.Phase != corev1.PodPending)
	setCondition(status, generation, corev1.PodInitialized, initialized)
	setCondition(status, generation, corev1.ContainersReady, ready)
	setCondition(status, generation, corev1.PodReady, gates)
	setCondition(status, generation, corev1.PodScheduled, true)
}

func setCondition(status *corev1.PodStatus, generation int64, kind corev1.PodConditionType, holds bool) {
	value, reason := corev1.ConditionTrue, ""
	if !holds {
		value, reason = corev1.ConditionFalse, "ContainersNotReady"
		if isFinished(status.Phase) {
			reason = "PodCompleted"
		}
	}
	i := slices.IndexFunc(status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind })
	if i < 0 {
		i = len(status.Conditions)
		status.Conditions = append(status.Conditions, corev1.PodCondition{Type: kind})
	}
	c := &status.Conditions[i]
	if c.Status != value {
		c.LastTransitionTime = metav1.Now()
	}
	c.Status, c.Reason, c.ObservedGeneration = value, reason, generation
}

// phase returns the phase that follows from the containers' states.
func (p *pod) phase() corev1.PodPhase {
	failed, ended, started := 0, 0, 0
	for _, c := range p.containers {
		switch {
		case c.State.Terminated != nil:
			started++
			ended++
			if c.State.Terminated.ExitCode != 0 {
				failed++
			}
		case c.State.Running != nil || c.LastTerminationState.Terminated != nil:
			started++
		}
	}
	initFailed := slices.ContainsFunc(p.inits, func(c corev1.ContainerStatus) bool {
		return c.State.Terminated != nil && c.State.Terminated.ExitCode != 0
	})
	switch {
	case initFailed, ended == len(p.containers) && failed > 0:
		return corev1.PodFailed
	case ended == len(p.containers):
		return corev1.PodSucceeded
	case started > 0:
		return corev1.PodRunning
	}
	return corev1.PodPending
}
