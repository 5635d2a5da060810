// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package node plays a cluster's node for Kubernetes' end-to-end tests, without a kubelet and without
// images.
//
// A container whose image is one of a few programs runs as a process: agnhost, the sample API server,
// etcd, busybox. The containers of a pod have a network of their own, each container has a root
// directory of its own, and the pod's ports can be reached at its IP. Any other container has no
// process: it is reported as running until the pod is deleted.
//
// Of a kubelet's API it serves the containers' logs, and runs commands in containers with a process.
// The package needs Linux and root, and that 10.0.0.0/8 is the machine itself, see
// program.PrepareNamespaces.
package node

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// firstIP is the IP of the node itself. The pods' IPs follow it.
var firstIP = netip.MustParseAddr("10.244.0.1")

// allocatable is what each node has for pods.
var allocatable = corev1.ResourceList{
	corev1.ResourceCPU:              resource.MustParse("16"),
	corev1.ResourceMemory:           resource.MustParse("64Gi"),
	corev1.ResourceEphemeralStorage: resource.MustParse("200Gi"),
	corev1.ResourcePods:             resource.MustParse("110"),
}

// A Node runs the pods that are bound to its nodes.
type Node struct {
	client   kubernetes.Interface
	server   string // host:port of the API server
	programs string // the directory with the programs
	busybox  string // the directory with its commands
	dir      string // for the files of pods
	logf     func(format string, args ...any)

	mu   sync.Mutex
	last netip.Addr         // the IP that was given last
	pods map[types.UID]*pod // those that run
	all  sync.WaitGroup     // the goroutines
}

// New returns a node whose pods run the programs in a directory. Their files and logs go to dir.
func New(config *rest.Config, server, programs, dir string, logf func(format string, args ...any)) (*Node, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1 // the tests must not wait for us
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	busybox := filepath.Join(dir, "busybox")
	if err := installBusybox(busybox); err != nil {
		return nil, err
	}
	return &Node{client: client, server: server, programs: programs, busybox: busybox, dir: dir, logf: logf,
		last: firstIP, pods: map[types.UID]*pod{}}, nil
}

// installBusybox makes a directory with busybox and all its commands.
func installBusybox(dir string) error {
	path, err := exec.LookPath("busybox")
	if err != nil {
		return fmt.Errorf("looking for busybox, which must be statically linked (Debian: busybox-static): %w", err)
	}
	program, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	commands, err := exec.Command(path, "--list").Output()
	if err != nil {
		return fmt.Errorf("listing the commands of %s: %w", path, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "busybox"), program, 0o755); err != nil {
		return err
	}
	for _, name := range strings.Fields(string(commands)) {
		if err := os.Symlink("busybox", filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return nil
}

// Prepare creates the Node objects and a default StorageClass, and serves their API until ctx ends.
func (n *Node) Prepare(ctx context.Context, version string, nodes ...string) error {
	for _, name := range nodes {
		if err := n.register(ctx, name, version); err != nil {
			return fmt.Errorf("creating node %s: %w", name, err)
		}
	}
	if err := n.createStorageClass(ctx); err != nil {
		return fmt.Errorf("creating a StorageClass: %w", err)
	}
	return n.serveKubelet(ctx)
}

// register creates a Node object that is ready for pods.
func (n *Node) register(ctx context.Context, name, version string) error {
	object := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name,
			corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64", corev1.LabelTopologyZone: "zone-of-" + name}},
		Status: corev1.NodeStatus{
			Capacity: allocatable, Allocatable: allocatable,
			Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: firstIP.String()}},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: kubeletPort}},
			NodeInfo: corev1.NodeSystemInfo{KubeletVersion: version, OperatingSystem: "linux", Architecture: "amd64",
				OSImage: "none", ContainerRuntimeVersion: "none://1"},
		},
	}
	now := metav1.Now()
	for kind, status := range map[corev1.NodeConditionType]corev1.ConditionStatus{
		corev1.NodeReady: corev1.ConditionTrue, corev1.NodeMemoryPressure: corev1.ConditionFalse,
		corev1.NodeDiskPressure: corev1.ConditionFalse, corev1.NodePIDPressure: corev1.ConditionFalse} {
		object.Status.Conditions = append(object.Status.Conditions, corev1.NodeCondition{Type: kind, Status: status,
			LastHeartbeatTime: now, LastTransitionTime: now, Reason: "HackConformance"})
	}
	created, err := n.client.CoreV1().Nodes().Create(ctx, object, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	// A new Node has a taint until a controller has seen that it is ready.
	created.Spec.Taints = nil
	if created, err = n.client.CoreV1().Nodes().Update(ctx, created, metav1.UpdateOptions{}); err != nil {
		return err
	}
	created.Status = object.Status
	_, err = n.client.CoreV1().Nodes().UpdateStatus(ctx, created, metav1.UpdateOptions{})
	return err
}

// Run runs pods and provisions volumes until ctx ends, and returns when the pods' processes have ended.
func (n *Node) Run(ctx context.Context) {
	n.provision(ctx)
	bound := cache.NewListWatchFromClient(n.client.CoreV1().RESTClient(), "pods", metav1.NamespaceAll,
		fields.OneTermNotEqualSelector("spec.nodeName", ""))
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{ListerWatcher: bound, ObjectType: &corev1.Pod{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(object any) { n.follow(ctx, object.(*corev1.Pod)) },
			UpdateFunc: func(_, object any) { n.follow(ctx, object.(*corev1.Pod)) },
			DeleteFunc: func(object any) {
				if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
					object = unknown.Obj
				}
				n.end(object.(*corev1.Pod).UID)
			},
		}})
	informer.RunWithContext(ctx)
	n.all.Wait()
}

// follow starts a pod that is new, and ends one that is being deleted.
func (n *Node) follow(ctx context.Context, object *corev1.Pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	known := n.pods[object.UID]
	switch {
	case object.DeletionTimestamp != nil && known != nil:
		known.end() // the pod's goroutine removes the object
	case object.DeletionTimestamp != nil:
		n.all.Go(func() { n.remove(ctx, object) })
	case known == nil && !isFinished(object.Status.Phase):
		n.last = n.last.Next()
		p := newPod(n, object.DeepCopy(), n.last)
		podContext, cancel := context.WithCancel(ctx)
		p.end = cancel
		n.pods[object.UID] = p
		n.all.Go(func() {
			p.run(podContext, ctx)
			cancel()
			n.mu.Lock()
			defer n.mu.Unlock()
			delete(n.pods, object.UID)
		})
	}
}

// end ends a pod whose object is gone.
func (n *Node) end(uid types.UID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p := n.pods[uid]; p != nil {
		p.end()
	}
}

// remove deletes the object of a pod whose processes have ended.
func (n *Node) remove(ctx context.Context, pod *corev1.Pod) {
	err := n.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64(0)), Preconditions: &metav1.Preconditions{UID: &pod.UID}})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && ctx.Err() == nil {
		n.logf("deleting pod %s/%s: %v", pod.Namespace, pod.Name, err)
	}
}

func isFinished(phase corev1.PodPhase) bool {
	return phase == corev1.PodSucceeded || phase == corev1.PodFailed
}

// files returns the directory of a pod.
func (n *Node) files(pod *corev1.Pod) string {
	return filepath.Join(n.dir, pod.Namespace+"_"+pod.Name+"_"+string(pod.UID)[:8])
}

// sleep waits, and reports whether ctx hasn't ended.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
