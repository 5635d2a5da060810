// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"slices"
	"testing"

	"k8s.io/kubernetes/cmd/kube-controller-manager/names"
)

// Source: kube-controller-manager's --controllers, where the first mention of a name decides.
func TestChosenWorkloads(t *testing.T) {
	for _, tt := range []struct {
		controllers, on, off []string
		count                int // of all that run
		whole                bool
	}{
		{controllers: []string{"*"}, on: []string{names.NamespaceController},
			off: []string{names.DeploymentController, names.JobController}, count: len(all)},
		{controllers: []string{"*", "workloads"}, on: []string{names.NamespaceController, names.DeploymentController},
			count: len(all) + len(workloads), whole: true},
		{controllers: []string{"workloads"}, on: []string{names.DeploymentController, names.DisruptionController},
			off: []string{names.NamespaceController}, count: len(workloads), whole: true},
		{controllers: []string{"*", "workloads", "-job-controller"}, on: []string{names.CronJobController},
			off: []string{names.JobController}, count: len(all) + len(workloads) - 1, whole: true},
		{controllers: []string{"-job-controller", "workloads"}, off: []string{names.JobController},
			count: len(workloads) - 1, whole: true},
		{controllers: []string{"*", "deployment-controller"}, on: []string{names.DeploymentController},
			off: []string{names.ReplicaSetController}, count: len(all) + 1, whole: true},
		{controllers: []string{"cronjob-controller", "ttl-after-finished-controller"}, count: 2},
		{},
	} {
		o := Options{Controllers: tt.controllers}
		if err := o.Validate(); err != nil {
			t.Errorf("%q: %v", tt.controllers, err)
		}
		if got := len(o.chosenControllers()); got != tt.count {
			t.Errorf("%q: %d run, want %d", tt.controllers, got, tt.count)
		}
		for _, name := range tt.on {
			if !o.Runs(name) {
				t.Errorf("%q: %s doesn't run", tt.controllers, name)
			}
		}
		for _, name := range tt.off {
			if o.Runs(name) {
				t.Errorf("%q: %s runs", tt.controllers, name)
			}
		}
		if o.WholePods() != tt.whole {
			t.Errorf("%q: whole pods %v", tt.controllers, o.WholePods())
		}
	}
	if !slices.Equal(Names()[len(all):], []string{
		"cronjob-controller", "daemonset-controller", "deployment-controller", "disruption-controller",
		"endpointslice-controller", "ephemeral-volume-controller", "job-controller", "replicaset-controller", "replicationcontroller-controller",
		"resourceclaim-controller", "statefulset-controller", "ttl-after-finished-controller",
	}) {
		t.Errorf("the controllers of workloads are %q", Names()[len(all):])
	}
	if err := (&Options{Controllers: []string{"*", "workload"}}).Validate(); err == nil {
		t.Error("a name that is none passes")
	}
}
