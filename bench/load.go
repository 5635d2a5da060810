// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"gatehouse.dev/test/peers"
)

const (
	namespace = "bench"
	// manyClients is how many clients write at a time if it isn't one.
	manyClients = 32
	// warmUp is how many pods are made before anything is counted.
	warmUp = 500
	// settle is left between batches, so that one's rest (etcd writes its tree to disk in the
	// background) isn't the next one's.
	settle = 500 * time.Millisecond
)

// A batch is the figures of some creates.
type batch struct {
	rate     float64       // creates in a second
	cpu      time.Duration // what the server spent on each
	p50, p99 time.Duration
}

// A load is a server and the clients that write to it.
type load struct {
	server  *peers.Server
	clients []kubernetes.Interface
	pods    int    // made so far
	prefix  string // of their names
	// namespace is the namespace of the pods; empty means bench.
	namespace string
	// shape changes each pod before it is created, if set.
	shape func(*corev1.Pod)
	// speak makes the clients' configuration from an administrator's. The default is
	// protobufConfig.
	speak func(context.Context, *rest.Config) (*rest.Config, error)
}

// prepare connects the clients, makes the namespace they write to, and some pods.
func (l *load) prepare(ctx context.Context) error {
	speak := protobufConfig
	if l.speak != nil {
		speak = l.speak
	}
	config, err := speak(ctx, rest.CopyConfig(l.server.Config))
	if err != nil {
		return err
	}
	for range manyClients {
		client, err := newClient(config)
		if err != nil {
			return err
		}
		l.clients = append(l.clients, client)
	}
	core := l.clients[0].CoreV1()
	in := cmp.Or(l.namespace, namespace)
	if _, err := core.Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: in}},
		metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	// kube-apiserver has no controllers that would make it.
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	if _, err := core.ServiceAccounts(in).Create(ctx, account, metav1.CreateOptions{}); err != nil &&
		!apierrors.IsAlreadyExists(err) {
		return err
	}
	_, err = l.create(ctx, manyClients, warmUp)
	return err
}

// protobufConfig makes the configuration of a client that sends protobuf, as Kubernetes' own
// clients do.
func protobufConfig(_ context.Context, config *rest.Config) (*rest.Config, error) {
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf
	return config, nil
}

// newClient returns a client with a connection of its own: client-go shares one between clients of
// the same configuration, but not of different dialers.
func newClient(config *rest.Config) (kubernetes.Interface, error) {
	config = rest.CopyConfig(config)
	config.Dial = (&net.Dialer{}).DialContext
	config.QPS = -1
	return kubernetes.NewForConfig(config)
}

// create makes n pods. Each of the clients makes one after the other.
func (l *load) create(ctx context.Context, clients, n int) (batch, error) {
	return l.createEvery(ctx, clients, n, 0)
}

// createPaced makes n pods with all clients, at most rate in a second.
func (l *load) createPaced(ctx context.Context, n, rate int) (batch, error) {
	return l.createEvery(ctx, manyClients, n, time.Second/time.Duration(rate))
}

// createEvery makes n pods, each no sooner than its number of intervals after the beginning.
func (l *load) createEvery(ctx context.Context, clients, n int, interval time.Duration) (batch, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	latencies := make([]time.Duration, n)
	first := l.pods
	l.pods += n
	var next atomic.Int64
	var group sync.WaitGroup
	cpu, err := cpuOf(l.server.Processes...)
	if err != nil {
		return batch{}, err
	}
	begin := time.Now()
	for _, client := range l.clients[:clients] {
		group.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				if interval > 0 && sleep(ctx, time.Until(begin.Add(time.Duration(i)*interval))) != nil {
					return // others failed
				}
				pod := newPod(cmp.Or(l.prefix, "web-") + strconv.Itoa(first+int(i)))
				if l.shape != nil {
					l.shape(pod)
				}
				pods := client.CoreV1().Pods(cmp.Or(pod.Namespace, l.namespace, namespace))
				sent := time.Now()
				if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
					cancel(fmt.Errorf("creating pod %s: %w", pod.Name, err))
					return
				}
				latencies[i] = time.Since(sent)
			}
		})
	}
	group.Wait()
	took := time.Since(begin)
	if err := context.Cause(ctx); err != nil {
		return batch{}, err
	}
	cpuThen, err := cpuOf(l.server.Processes...)
	if err != nil {
		return batch{}, err
	}
	slices.Sort(latencies)
	return batch{
		cpu:  (cpuThen - cpu) / time.Duration(n),
		rate: float64(n) / took.Seconds(),
		p50:  latencies[n/2],
		p99:  latencies[n*99/100],
	}, nil
}

// chainTime returns the time that the server has spent in admission by its own metrics, and the
// number of creates.
func (l *load) chainTime(ctx context.Context) (spent time.Duration, creates float64, err error) {
	text, err := l.clients[0].Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return 0, 0, err
	}
	const metric = "apiserver_admission_step_admission_duration_seconds_"
	for line := range strings.Lines(string(text)) {
		labels, figure, _ := strings.Cut(strings.TrimSpace(line), "} ")
		if !strings.HasPrefix(labels, metric) || !strings.Contains(labels, `operation="CREATE"`) {
			continue
		}
		value, err := strconv.ParseFloat(figure, 64)
		if err != nil {
			return 0, 0, err
		}
		switch {
		case strings.HasPrefix(labels, metric+"sum{"):
			spent += time.Duration(value * float64(time.Second))
		case strings.HasPrefix(labels, metric+"count{") && strings.Contains(labels, `type="validate"`):
			creates += value
		}
	}
	return spent, creates, nil
}

// newPod returns a pod like a Deployment's: two containers with resources and probes, two volumes.
func newPod(name string) *corev1.Pod {
	resources := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu),
			corev1.ResourceMemory: resource.MustParse(memory)}
	}
	container := func(name string, port int32) corev1.Container {
		return corev1.Container{
			Name:  name,
			Image: "registry.example.com/shop/" + name + ":1.42.0",
			Ports: []corev1.ContainerPort{{Name: name, ContainerPort: port}},
			Env: []corev1.EnvVar{{Name: "LEVEL", Value: "info"},
				{Name: "POD",
					ValueFrom: &corev1.EnvVarSource{
						FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"},
					}}},
			Resources: corev1.ResourceRequirements{Requests: resources("250m", "256Mi"),
				Limits: resources("1", "512Mi")},
			ReadinessProbe: &corev1.Probe{
				ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/readyz",
					Port: intstr.FromString(name)}},
				PeriodSeconds: 5,
			},
			VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/etc/web"},
				{Name: "tmp", MountPath: "/tmp"}},
			SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: ptr.To(false),
				Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
		}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Labels:      map[string]string{"app": "web", "tier": "front"},
			Annotations: map[string]string{"prometheus.io/scrape": "true", "prometheus.io/port": "9090"},
		},
		Spec: corev1.PodSpec{
			SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: ptr.To(true), FSGroup: ptr.To[int64](2000)},
			Containers:      []corev1.Container{container("web", 8080), container("proxy", 8081)},
			Volumes: []corev1.Volume{
				{Name: "config",
					VolumeSource: corev1.VolumeSource{
						ConfigMap: &corev1.ConfigMapVolumeSource{
							LocalObjectReference: corev1.LocalObjectReference{Name: "web"},
						},
					}},
				{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			},
			NodeSelector: map[string]string{"kubernetes.io/os": "linux"},
		},
	}
}
