// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/decision/client"
)

// retry is how long after a failure the server is asked again. It is short because a user looks at
// the page.
var retry = wait.Backoff{Duration: 250 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 10, Cap: 5 * time.Second}

// follow keeps the mirror like the server until ctx ends. It never gives up: an error becomes the
// mirror's state, and may pass.
func follow(ctx context.Context, config *rest.Config, namespace string, m *mirror) error {
	said := &client.Warnings{}
	config = rest.CopyConfig(config)
	config.WarningHandler, config.WarningHandlerWithContext = said, nil
	decisions, err := client.New(config)
	if err != nil {
		return err
	}
	say := func(err error) {
		// A client that was away too long gets everything again, which needs no message.
		if err != nil && ctx.Err() == nil && !apierrors.IsResourceExpired(err) {
			m.set(waiting, explain(err, namespace, client.NotServed(ctx, decisions, err)))
		}
	}
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			said.Take() // of a list before
			list, err := readList(ctx, client.Request(decisions, namespace, options), m.filler())
			say(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.Watch = true
			watching, err := client.Request(decisions, namespace, options).Watch(ctx)
			say(err)
			if err == nil {
				m.set(live, sentences(said.Take()))
			}
			return watching, err
		},
	}
	ctx = klog.NewContext(ctx, klog.Logger{}) // what there is to say the page says
	cache.NewReflectorWithOptions(listing{source}, &v1alpha1.Decision{}, m, cache.ReflectorOptions{
		Name: "decisions", Backoff: &retry,
	}).RunWithContext(ctx)
	return nil
}

// sentences returns warnings of the server as sentences.
func sentences(warnings []string) string {
	for i, w := range warnings {
		warnings[i] = strings.ToUpper(w[:1]) + w[1:] + "."
	}
	return strings.Join(warnings, " ")
}

// listing makes a Reflector list and then watch. With a watch alone ten thousand decisions take
// more than twice as long, because each is decoded as an event, as an object of some kind, and as a
// Decision.
type listing struct{ *cache.ListWatch }

// IsWatchListSemanticsUnSupported reports true, so that a Reflector lists.
func (listing) IsWatchListSemanticsUnSupported() bool { return true }

// explain returns why there are no decisions, and what can be done.
func explain(err error, namespace string, notServed bool) string {
	switch {
	case notServed:
		return fmt.Sprintf("The server has no API group %s: it isn't Gatehouse, or runs with --decisions=false.",
			v1alpha1.SchemeGroupVersion.Group)
	case apierrors.IsForbidden(err):
		grant := fmt.Sprintf("kubectl create clusterrolebinding NAME --clusterrole=%s --user=USER",
			v1alpha1.ViewerRole)
		if namespace != "" {
			grant = fmt.Sprintf("kubectl create rolebinding NAME --namespace=%s --clusterrole=%s --user=USER",
				namespace, v1alpha1.ViewerRole)
		}
		message := fmt.Sprintf("%v. Who may see decisions has the ClusterRole %s; an administrator gives it with: %s",
			err, v1alpha1.ViewerRole, grant)
		if namespace == "" {
			message += ". If you have it in one namespace, start the dashboard with --namespace."
		}
		return message
	case apierrors.IsUnauthorized(err):
		return fmt.Sprintf("The server doesn't know who you are: %v.", err)
	}
	return fmt.Sprintf("The server can't be reached: %v. It is tried again.", err)
}
