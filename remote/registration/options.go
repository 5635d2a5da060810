// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"net/url"
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/util/webhook"

	"gatehouse.dev/plugin"
	"gatehouse.dev/remote/installation"
)

const (
	// DefaultTimeout is how long API servers wait for an answer, as they do by default.
	DefaultTimeout = 10 * time.Second
	longestTimeout = 30 * time.Second
)

// Service names the Service by which API servers in the cluster reach the replicas.
type Service struct {
	Namespace, Name string
	// Port is the Service's port, not the pods'. 0 means 443.
	Port int32
}

// Options determine the webhook configurations.
type Options struct {
	// Name is the name of the configurations, Namespace the namespace of the Lease and the Secret.
	Name, Namespace string

	// URL is the address that API servers call, "https://host:port". Either URL or Service is set.
	URL     string
	Service *Service

	// Plugins are the enabled plugins, in the order in which they run.
	Plugins []plugin.Descriptor
	// PerPlugin makes API servers call each plugin separately.
	PerPlugin bool
	// FailurePolicy decides about a request if the call fails, by the plugin's name. The default is
	// Fail.
	FailurePolicy map[string]admissionregistrationv1.FailurePolicyType
	// Timeout is how long API servers wait for an answer, 1 to 30 seconds. 0 means DefaultTimeout.
	Timeout time.Duration

	// ExemptNamespaces are the namespaces whose objects are exempt. Nil means kube-system and
	// Namespace; empty means none.
	ExemptNamespaces []string
	// User is the user name of the replicas. Plugins aren't asked about its internal writes, such
	// as the Lease.
	User string
}

// Installation returns the name and namespace of the installation.
func (o *Options) Installation() installation.Installation {
	return installation.Installation{Name: o.Name, Namespace: o.Namespace}
}

// Hosts returns the names and IP addresses for which the serving certificate must be valid.
func (o *Options) Hosts() []string {
	if o.Service != nil {
		return []string{o.Service.Name + "." + o.Service.Namespace + ".svc"}
	}
	u, err := url.Parse(o.URL)
	if err != nil {
		return nil
	}
	return []string{u.Hostname()}
}

// Validate returns what is wrong with the options, in the words in which an API server would refuse
// the configurations.
func (o *Options) Validate() error {
	var errs field.ErrorList
	name := field.NewPath("name")
	for _, problem := range validation.IsDNS1123Subdomain(o.Name) {
		errs = append(errs, field.Invalid(name, o.Name, problem))
	}
	for _, problem := range validation.IsValidLabelValue(o.Name) { // it is the value of one
		errs = append(errs, field.Invalid(name, o.Name, problem))
	}
	for _, problem := range validation.IsDNS1123Label(o.Namespace) {
		errs = append(errs, field.Invalid(field.NewPath("namespace"), o.Namespace, problem))
	}
	switch {
	case (o.URL == "") == (o.Service == nil):
		errs = append(errs, field.Required(field.NewPath("url"), "exactly one of url or service is required"))
	case o.URL != "":
		errs = append(errs, webhook.ValidateWebhookURL(field.NewPath("url"), o.URL, true)...)
	default:
		errs = append(errs, webhook.ValidateWebhookService(field.NewPath("service"), o.Service.Namespace,
			o.Service.Name, nil, o.port())...)
	}
	if t := o.timeout(); t < time.Second || t > longestTimeout {
		errs = append(errs, field.Invalid(field.NewPath("timeout"), t.String(),
			"the timeout value must be between 1 and 30 seconds"))
	}
	for i, namespace := range o.ExemptNamespaces {
		for _, problem := range validation.IsDNS1123Label(namespace) {
			errs = append(errs, field.Invalid(field.NewPath("exemptNamespaces").Index(i), namespace, problem))
		}
	}
	return append(errs, o.validatePlugins()...).ToAggregate()
}

func (o *Options) validatePlugins() field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("plugins")
	if len(o.Plugins) == 0 {
		errs = append(errs, field.Required(path, "there is nothing to be asked"))
	}
	var names []string
	for i := range o.Plugins {
		p := &o.Plugins[i]
		if slices.Contains(names, p.Name) {
			errs = append(errs, field.Duplicate(path.Index(i), p.Name))
		}
		if p.Server.Only != "" {
			errs = append(errs, field.Invalid(path.Index(i), p.Name, "can't run outside an API server: "+p.Server.Only))
		}
		names = append(names, p.Name)
	}
	policies := []admissionregistrationv1.FailurePolicyType{admissionregistrationv1.Fail,
		admissionregistrationv1.Ignore}
	for name, policy := range o.FailurePolicy {
		at := field.NewPath("failurePolicy").Key(name)
		if !slices.Contains(names, name) {
			errs = append(errs, field.Invalid(at, name, "is not among the plugins that are enabled"))
		}
		if !slices.Contains(policies, policy) {
			errs = append(errs, field.NotSupported(at, policy, policies))
		}
	}
	return errs
}

func (o *Options) port() int32 {
	if o.Service.Port == 0 {
		return 443
	}
	return o.Service.Port
}

func (o *Options) timeout() time.Duration {
	if o.Timeout == 0 {
		return DefaultTimeout
	}
	return o.Timeout
}

func (o *Options) exempt() []string {
	if o.ExemptNamespaces != nil {
		return o.ExemptNamespaces
	}
	exempt := []string{metav1.NamespaceSystem, o.Namespace}
	slices.Sort(exempt)
	return slices.Compact(exempt)
}

func (o *Options) failurePolicy(plugin string) admissionregistrationv1.FailurePolicyType {
	if policy, ok := o.FailurePolicy[plugin]; ok {
		return policy
	}
	return admissionregistrationv1.Fail
}
