// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes"

	"gatehouse.dev/internal/quota"
	related "gatehouse.dev/internal/quota/cluster"
	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/plugin"
)

// unknownUsage means that it isn't known what a quota counts already.
const unknownUsage = "unknown-usage"

// QuotaPlugins returns the names of the plugins that enforce ResourceQuotas.
func QuotaPlugins(list []plugin.Descriptor) []string {
	return enforcing(list, func(e plugin.Enforced) bool { return e.Resource == corev1.Resource("resourcequotas") })
}

// HasQuotas reports whether there is a ResourceQuota among objects.
func HasQuotas(documents []input.Document) bool {
	return slices.ContainsFunc(documents, func(d input.Document) bool {
		return d.Object.GroupVersionKind().GroupKind() == quotaKind
	})
}

// eachQuotaError returns an error of each quota of a candidate.
func eachQuotaError(candidate []input.Document, message string) error {
	var errs []error
	for _, d := range candidate {
		if d.Object.GroupVersionKind().GroupKind() == quotaKind {
			errs = append(errs, &input.Error{Source: d.Source, Object: d.Object,
				Err: fmt.Errorf("%s: %s", input.Named(d.Object), message)})
		}
	}
	return errors.Join(errs...)
}

// checkQuotas returns an error for a quota of a candidate that would limit nothing, because nothing counts.
func checkQuotas(o *TrialOptions) error {
	if o.Quotas {
		return nil
	}
	return eachQuotaError(slices.Concat(o.Candidate, o.Against), "a quota can be tried only on all requests since a state "+
		"that is known: name the state at the beginning of the log with --state=FILE --state-at=start, or leave the quota "+
		"out of the candidate")
}

// checkQuotaPlugin returns an error for a quota of a side that no plugin of the side's server enforces.
func (j *Judge) checkQuotaPlugin(side []input.Document) error {
	s := j.reviewer.cluster.server
	if len(QuotaPlugins(s.Plugins())) > 0 {
		return nil
	}
	return eachQuotaError(side, "a quota limits nothing without the plugin that enforces it, which doesn't run here: add it "+
		"to --enable-admission-plugins, or leave it out of --disable-admission-plugins")
}

// A meter measures objects for quotas.
type meter struct {
	reviewer *Reviewer
	client   kubernetes.Interface
	off      quota.Gates
	// now is the time by which a pod's grace period is over; nil for the present.
	now func() time.Time
}

func (r *Reviewer) newMeter(now func() time.Time) (*meter, error) {
	client, err := kubernetes.NewForConfig(r.cluster.config())
	if err != nil {
		return nil, err
	}
	return &meter{reviewer: r, client: client, off: quota.GatesOff(utilfeature.DefaultFeatureGate.Enabled), now: now}, nil
}

// counted is an object of which only the existence counts.
var counted = &metav1.PartialObjectMetadata{}

// measure returns what an object costs that is a resource's, in JSON.
func (m *meter) measure(ctx context.Context, resource schema.GroupResource, object []byte) (*quota.Cost, error) {
	if !quota.DependsOnContent(resource) {
		return quota.CostOf(resource, counted)
	}
	var of metav1.TypeMeta
	if err := json.Unmarshal(object, &of); err != nil {
		return nil, err
	}
	kind := of.GroupVersionKind().GroupKind().WithVersion("v1")
	data, err := m.reviewer.cluster.server.Converted(object, kind) // with its defaults
	if err != nil {
		return nil, err
	}
	typed := quota.NewObject(resource)
	if err := json.Unmarshal(data, typed); err != nil {
		return nil, err
	}
	return quota.Meter{Now: m.now, Off: m.off, Related: related.NewReader(ctx, m.client, "")}.CostOf(resource, typed)
}

// quotasOf returns the quotas that a side's server has.
func (j *Judge) quotasOf(ctx context.Context) ([]corev1.ResourceQuota, error) {
	return listAs[corev1.ResourceQuota](ctx, j.reviewer, corev1.SchemeGroupVersion.WithKind(quotaKind.Kind))
}
