// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	schedulingdefaults "k8s.io/kubernetes/pkg/apis/scheduling/v1"

	"gatehouse.dev/apiserver/upstream"
)

const (
	// bootstrapConcurrency is the number of objects that are created at a time. They are
	// independent, and etcd writes what arrives together to disk together.
	bootstrapConcurrency = 32
	bootstrapRetry       = 20 * time.Millisecond
	bootstrapTimeout     = 30 * time.Second
	// allocationTime bounds the time from the allocation of a Service's IP to the creation of the
	// Service. The IP's time is in seconds.
	allocationTime = 3 * time.Second
)

// bootstrapHook makes the objects that a cluster has from its first moment on. The server isn't ready
// before they are made.
func (c *config) bootstrapHook(hook server.PostStartHookContext) error {
	client, err := hookClient(hook)
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Namespaces().Get(hook, metav1.NamespaceSystem, metav1.GetOptions{})
	fresh := apierrors.IsNotFound(err)
	// Role bindings' namespaces are made first: reconciling a binding would make them too, and
	// collide.
	if err := inParallel(hook, namespaceTasks(client)); err != nil {
		return err
	}
	tasks := []task{c.kubernetesServiceTask(client)}
	if c.options.showsTokens() {
		tasks = append(tasks, webhookAccountTask(client))
	}
	if c.rbac {
		if !fresh {
			if err := inParallel(hook, rbacInheritanceTasks(client)); err != nil {
				return err
			}
		}
		tasks = append(tasks, rbacTasks(client, c.options.extensionRoles(), fresh)...)
	}
	return inParallel(hook, tasks)
}

// priorityClassHook makes the priority classes of the system. It is a hook of its own because clients
// look for its name at /healthz.
func priorityClassHook(hook server.PostStartHookContext) error {
	client, err := hookClient(hook)
	if err != nil {
		return err
	}
	return inParallel(hook, priorityClassTasks(client))
}

// hookClient returns a client that doesn't wait between requests.
func hookClient(hook server.PostStartHookContext) (kubernetes.Interface, error) {
	config := rest.CopyConfig(hook.LoopbackClientConfig)
	config.QPS = -1
	return kubernetes.NewForConfig(config)
}

// A task makes sure that one object exists.
type task struct {
	object string // for errors
	run    func(context.Context) error
}

// inParallel runs tasks, each again until it succeeds: the caches and allocators that admit its
// write may come up a moment later.
func inParallel(ctx context.Context, tasks []task) error {
	ctx, cancel := context.WithTimeout(ctx, bootstrapTimeout)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(bootstrapConcurrency)
	for _, t := range tasks {
		group.Go(func() error {
			var last error
			err := wait.PollUntilContextCancel(ctx, bootstrapRetry, true, func(ctx context.Context) (bool, error) {
				err := t.run(ctx)
				if ctx.Err() == nil || last == nil {
					last = err // rather than that time is over, if there is another reason
				}
				return err == nil || apierrors.IsAlreadyExists(err), nil
			})
			if err != nil {
				return fmt.Errorf("%s could not be made: %w", t.object, last)
			}
			return nil
		})
	}
	return group.Wait()
}

func namespaceTasks(client kubernetes.Interface) []task {
	var tasks []task
	for _, name := range upstream.SystemNamespaces {
		tasks = append(tasks, task{"namespace " + name, func(ctx context.Context) error {
			if _, err := client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				return err
			}
			_, err := client.CoreV1().Namespaces().Create(ctx,
				&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
			return err
		}})
	}
	return tasks
}

func priorityClassTasks(client kubernetes.Interface) []task {
	var tasks []task
	for _, class := range schedulingdefaults.SystemPriorityClasses() {
		tasks = append(tasks, task{"priority class " + class.Name, func(ctx context.Context) error {
			classes := client.SchedulingV1().PriorityClasses()
			if _, err := classes.Get(ctx, class.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				return err
			}
			_, err := classes.Create(ctx, (*schedulingv1.PriorityClass)(class), metav1.CreateOptions{})
			return err
		}})
	}
	return tasks
}

// kubernetesServiceTask makes the Service by which pods find the API server.
func (c *config) kubernetesServiceTask(client kubernetes.Interface) task {
	return task{"service default/kubernetes", func(ctx context.Context) error {
		services := client.CoreV1().Services(metav1.NamespaceDefault)
		if _, err := services.Get(ctx, "kubernetes", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return err
		}
		singleStack, serviceType := corev1.IPFamilyPolicySingleStack, corev1.ServiceTypeClusterIP
		if c.options.KubernetesServiceNodePort > 0 {
			serviceType = corev1.ServiceTypeNodePort
		}
		_, created := services.Create(ctx, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{
				Name:   "kubernetes",
				Labels: map[string]string{"component": "apiserver", "provider": "kubernetes"},
			},
			Spec: corev1.ServiceSpec{
				Type:            serviceType,
				ClusterIP:       c.options.apiServiceIP.String(),
				IPFamilyPolicy:  &singleStack,
				SessionAffinity: corev1.ServiceAffinityNone,
				Ports: []corev1.ServicePort{{
					Name: "https", Protocol: corev1.ProtocolTCP, Port: 443, TargetPort: intstr.FromInt(c.securePort()),
					NodePort: int32(c.options.KubernetesServiceNodePort),
				}},
			},
		}, metav1.CreateOptions{})
		if apierrors.IsInvalid(created) {
			return errors.Join(created, c.freeAPIServiceIP(ctx, client))
		}
		return created
	}}
}

// freeAPIServiceIP frees the IP of the Service by which pods find the API server. A server that was
// ended while it started may have taken the IP without making the Service. Kubernetes' controller finds
// such an IP after minutes. An IP that another server takes right now is left alone.
func (c *config) freeAPIServiceIP(ctx context.Context, client kubernetes.Interface) error {
	addresses := client.NetworkingV1().IPAddresses()
	taken, err := addresses.Get(ctx, c.options.apiServiceIP.String(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		return err
	}
	owner := taken.Spec.ParentRef
	if owner == nil || owner.Resource != "services" || owner.Namespace != metav1.NamespaceDefault ||
		owner.Name != "kubernetes" || time.Since(taken.CreationTimestamp.Time) < allocationTime {
		return nil
	}
	return addresses.Delete(ctx, taken.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(
		string(taken.UID))})
}

// securePort is the port the server listens on.
func (c *config) securePort() int {
	if addr, ok := c.generic.SecureServing.Listener.Addr().(*net.TCPAddr); ok {
		return addr.Port
	}
	return c.options.SecureServing.BindPort
}

// bootstrapAdmission admits all that the server itself writes until it is ready, and hands everything
// else to the chain.
//
// A server must come up whatever its chain is, with AlwaysDeny on or a webhook that is down;
// kube-apiserver does not. The exemption ends with the start: later on, what the server does for
// itself or for a plugin is admitted like everybody's writes.
type bootstrapAdmission struct {
	chain Admission
	ready atomic.Bool
}

// Handles implements admission.Interface.
func (b *bootstrapAdmission) Handles(operation admission.Operation) bool {
	return b.chain.Handles(operation)
}

// Admit implements admission.MutationInterface.
func (b *bootstrapAdmission) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if takeScope(ctx, o) {
		return errScopeTaken
	}
	if b.exempt(ctx, a) {
		return nil
	}
	return b.chain.Admit(ctx, a, o)
}

// Validate implements admission.ValidationInterface.
func (b *bootstrapAdmission) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if b.exempt(ctx, a) || validationExempt(ctx) {
		return nil
	}
	return b.chain.Validate(ctx, a, o)
}

func (b *bootstrapAdmission) exempt(ctx context.Context, a admission.Attributes) bool {
	return admissionExempt(ctx) ||
		!b.ready.Load() && a.GetUserInfo() != nil && a.GetUserInfo().GetName() == user.APIServerUser
}
