// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package defaulttolerationseconds implements the admission plugin DefaultTolerationSeconds, which
// lets pods stay for a while, five minutes by default, on a node that has become not ready or
// unreachable.
//
// Such a node gets the taint node.kubernetes.io/not-ready:NoExecute or
// node.kubernetes.io/unreachable:NoExecute, and pods that don't tolerate the taint are evicted at
// once. The plugin gives a pod a toleration of each, with an end. It gives none if the pod has a
// toleration of that key (or of node.alpha.kubernetes.io/unreachable for the second), or of all
// keys, for the effect NoExecute or all effects. The seconds are configuration; the command also
// has kube-apiserver's flags for them.
package defaulttolerationseconds

import (
	"context"
	_ "embed"
	"fmt"
	"io"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/pluginconfig"
	"gatehouse.dev/plugin/podspec"
)

const (
	name       = "DefaultTolerationSeconds"
	apiVersion = "gatehouse.dev/v1alpha1"
	kind       = name + "Configuration"

	// alphaUnreachable is the name of one taint before Kubernetes 1.8. The documentation still says
	// that a toleration for it counts. It says so of no other old name.
	alphaUnreachable = "node.alpha.kubernetes.io/unreachable"
)

var pods = corev1.Resource("pods")

//go:embed README.md
var manual string

// Descriptor describes DefaultTolerationSeconds. It needs nothing of its host; its configuration is
// of kind DefaultTolerationSecondsConfiguration.
//
//schema:configuration configuration DefaultTolerationSecondsConfiguration gatehouse.dev/v1alpha1
var Descriptor = plugin.Descriptor{
	Name:       name,
	Summary:    "Lets pods stay on nodes that are not ready or unreachable for five minutes",
	Manual:     manual,
	Phases:     plugin.Mutating,
	Operations: []admission.Operation{admission.Create, admission.Update},
	Resources:  plugin.On(pods),
	Default:    true,
	Flags:      flags,
	New: func(config io.Reader, _ *plugin.Env) (plugin.Plugin, error) {
		c := defaults
		if _, err := pluginconfig.Object(name, config, apiVersion, kind, &c); err != nil {
			return nil, err
		}
		return &defaultTolerationSeconds{c}, nil
	},
}

// configuration holds the configuration of the plugin. As everywhere in Kubernetes, a negative
// number of seconds means zero: the pod is evicted at once.
type configuration struct {
	// NotReady is how many seconds a pod stays on a node that is not ready; 300 by default.
	//
	//schema:default 300
	NotReady int64 `json:"notReadyTolerationSeconds"`
	// Unreachable is the same for a node that is unreachable.
	//
	//schema:default 300
	Unreachable int64 `json:"unreachableTolerationSeconds"`
}

var defaults = configuration{NotReady: 300, Unreachable: 300}

// flags adds the two flags that kube-apiserver has for the plugin.
func flags(fs *pflag.FlagSet) func() string {
	var c configuration
	help := "How many seconds a pod tolerates its node being %s (the tolerationSeconds of the toleration for " +
		"%s:NoExecute), where it says nothing of that itself. Configures the admission plugin " + name + "."
	fs.Int64Var(&c.NotReady, "default-not-ready-toleration-seconds", defaults.NotReady,
		fmt.Sprintf(help, "not ready", "notReady"))
	fs.Int64Var(&c.Unreachable, "default-unreachable-toleration-seconds", defaults.Unreachable,
		fmt.Sprintf(help, "unreachable", "unreachable"))
	return func() string {
		return fmt.Sprintf("apiVersion: %s\nkind: %s\nnotReadyTolerationSeconds: %d\nunreachableTolerationSeconds: "+
			"%d\n",
			apiVersion, kind, c.NotReady, c.Unreachable)
	}
}

type defaultTolerationSeconds struct {
	seconds configuration
}

var _ plugin.Mutator = &defaultTolerationSeconds{}

// Admit adds the tolerations that the pod lacks.
func (p *defaultTolerationSeconds) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod, err := podspec.Pod(name, a.GetObject())
	if err != nil {
		return err
	}
	var notReady, unreachable bool
	for i := range pod.Spec.Tolerations {
		t := &pod.Spec.Tolerations[i]
		if t.Effect != corev1.TaintEffectNoExecute && t.Effect != "" {
			continue
		}
		switch t.Key {
		case "":
			notReady, unreachable = true, true
		case corev1.TaintNodeNotReady:
			notReady = true
		case corev1.TaintNodeUnreachable, alphaUnreachable:
			unreachable = true
		}
	}
	if !notReady {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, tolerationOf(corev1.TaintNodeNotReady, p.seconds.NotReady))
	}
	if !unreachable {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, tolerationOf(corev1.TaintNodeUnreachable, p.seconds.Unreachable))
	}
	return nil
}

// tolerationOf returns a toleration of a taint for some seconds.
func tolerationOf(taint string, seconds int64) corev1.Toleration {
	return corev1.Toleration{Key: taint, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
		TolerationSeconds: &seconds}
}
