// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"gatehouse.dev/remote/installation"
	"gatehouse.dev/webhook/server"
)

const (
	// ProbePath is the path of the call by which replicas find out whether they are reached.
	ProbePath = "/probe"

	probeWebhook = "probe." + domain
	probeLabel   = domain + "/probe"
	probeAnswer  = "API servers reach this webhook"
	probeTimeout = 5 // seconds
	// spreadTimeout is how long an API server may take to see the configuration of the probe, and
	// probeInterval how often it is asked.
	spreadTimeout = 10 * time.Second
	probeInterval = 100 * time.Millisecond
)

// AnswerProbe returns the handler for ProbePath. It refuses every request, so that the prober
// learns that the API server has called it.
func AnswerProbe() http.Handler {
	return server.FallibleHandler(func(context.Context, *admissionv1.AdmissionRequest) (server.Response, error) {
		return server.Denied(probeAnswer), nil
	})
}

func probeName(i installation.Installation) string { return i.Name + "-probe" }

// probe returns the configuration that has API servers call ProbePath, about one Lease that is only
// ever created in dry runs.
func (o *Options) probe(bundle []byte, owners []metav1.OwnerReference) *admissionregistrationv1.
	ValidatingWebhookConfiguration {
	i := o.Installation()
	call := &Call{Name: probeWebhook, Path: ProbePath, FailurePolicy: admissionregistrationv1.Fail}
	w := webhookOf(o, call, bundle)
	w.Rules = []admissionregistrationv1.RuleWithOperations{{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
		Rule: admissionregistrationv1.Rule{APIGroups: []string{coordinationv1.GroupName}, APIVersions: []string{"*"},
			Resources: []string{"leases"}}}}
	w.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: i.Namespace}}
	w.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{probeLabel: i.Name}}
	w.SideEffects = new(admissionregistrationv1.SideEffectClassNone)
	w.TimeoutSeconds = new(int32(probeTimeout))
	return &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: probeName(i),
		Labels: i.Labels(), Annotations: map[string]string{leaveAloneAnnotation: "true"}, OwnerReferences: owners},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{w}}
}

// checkReached returns an error unless the API server reaches the webhooks. After one success it
// doesn't ask again. Several API servers behind one address may differ: the one that answers
// counts.
func (k *Keeper) checkReached(ctx context.Context, bundle []byte, owners []metav1.OwnerReference) error {
	o := &k.Options
	if !k.CheckReached || k.reached {
		return nil
	}
	if err := k.mayCreate(ctx); err != nil {
		return err
	}
	configurations := validating(k.Client)
	if _, err := configurations.removeNamed(ctx, o.Installation(), probeName(o.Installation())); err != nil {
		return fmt.Errorf("removing an old probe: %w", err)
	}
	// A replica that is told to end waits for the creation, which the API server might finish
	// anyway, and then deletes the configuration.
	bounded := func() (context.Context, context.CancelFunc) {
		return context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	}
	defer func() {
		ctx, cancel := bounded()
		defer cancel()
		if _, err := configurations.removeNamed(ctx, o.Installation(), probeName(o.Installation())); err != nil {
			klog.ErrorS(err, "The configuration of the probe is left", "name", probeName(o.Installation()))
		}
	}()
	creating, cancel := bounded()
	defer cancel()
	if _, err := configurations.client.Create(creating, o.probe(bundle, owners), metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the configuration of the probe: %w", err)
	}
	if err := k.ask(ctx); err != nil {
		return err
	}
	k.reached = true
	return nil
}

// ask creates the Lease of the probe, in dry runs, until the API server has called the probe.
func (k *Keeper) ask(ctx context.Context) error {
	o := &k.Options
	where := o.URL
	if o.Service != nil {
		where = fmt.Sprintf("services %q in namespace %q", o.Service.Name, o.Service.Namespace)
	}
	would := "would let all requests pass"
	if slices.ContainsFunc(Calls(o), func(c Call) bool { return c.FailurePolicy == admissionregistrationv1.Fail }) {
		would = "would refuse requests"
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: probeName(o.Installation()),
		Namespace: o.Namespace, Labels: map[string]string{probeLabel: o.Name}}}
	for until := time.Now().Add(spreadTimeout); ; {
		_, err := k.Client.CoordinationV1().Leases(o.Namespace).Create(ctx, lease,
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		switch {
		case err == nil && time.Now().After(until):
			return &waitingError{fmt.Sprintf("the API server hasn't asked at %s within %s, and doesn't say why: "+
				"--skip-reachability-check registers anyway", where, spreadTimeout)}
		case err == nil: // it hasn't seen the configuration yet
		case strings.Contains(err.Error(), fmt.Sprintf("%q denied the request: %s", probeWebhook, probeAnswer)):
			return nil
		case strings.Contains(err.Error(), fmt.Sprintf("%q", probeWebhook)) || apierrors.IsTimeout(err):
			return &waitingError{fmt.Sprintf("the API server can't ask at %s, and %s. It said: %v. "+
				"This is tried again until it can; --skip-reachability-check registers anyway", where, would, err)}
		default:
			return fmt.Errorf("finding out whether the API server reaches %s, by a Lease in a dry run: %w: "+
				"--skip-reachability-check registers without that", where, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(probeInterval):
		}
	}
}
