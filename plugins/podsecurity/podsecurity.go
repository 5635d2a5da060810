// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podsecurity implements the admission plugin PodSecurity, which holds pods to one of the
// three Pod Security Standards, privileged, baseline or restricted, as the labels of their
// namespace say.
//
// A namespace has three modes, each with a level and the version of the standard that the level is
// taken from (pod-security.kubernetes.io/enforce and .../enforce-version; audit and warn likewise):
//
//   - enforce refuses pods that violate the level.
//   - audit writes the violation into the audit event.
//   - warn warns the user. Without a level of its own it has that of enforce, if the namespace's
//     labels set that one and it is stricter.
//
// Missing labels have the defaults of the plugin's configuration, or else privileged and latest. A
// version that this release doesn't know yet is checked as the latest. Package
// k8s.io/pod-security-admission/policy has the checks; this package decides which pods are checked,
// against which level, and what follows.
//
// Pods are checked when they are created, and when an update changes an image or adds a container,
// also an ephemeral one. No update can change anything else that a level checks, and a stored pod
// must be able to end although its namespace has become stricter. Objects with a template of pods,
// such as Deployments, are audited and warned of, but never refused: their pods will be.
//
// A namespace whose labels can't be parsed is refused, unless it had these labels before. Then
// enforce counts as restricted and latest, audit and warn as privileged. An update that makes
// enforce stricter warns of the existing pods that violate it.
//
// The configuration exempts users, namespaces and runtime classes. The user is the one who makes
// the request, which for the pods of a Deployment is a controller.
//
// The decision is a function of the request, the namespace and the configuration, and returns a
// verdict. Only Validate reports it: to the user, the audit event and the metrics.
package podsecurity

import (
	"context"
	_ "embed"
	"errors"
	"io"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/admission"
	apiaudit "k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/warning"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/component-base/compatibility"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugins/internal/namespaces"
)

const name = "PodSecurity"

var (
	podResource       = corev1.Resource("pods")
	namespaceResource = corev1.Resource("namespaces")
)

//go:embed README.md
var manual string

// Descriptor describes PodSecurity. It needs a client, informers and the server's version; its
// configuration is of kind PodSecurityConfiguration in pod-security.admission.config.k8s.io/v1.
//
//schema:configuration fileFormat PodSecurityConfiguration pod-security.admission.config.k8s.io/v1 pod-security.admission.config.k8s.io/v1beta1 pod-security.admission.config.k8s.io/v1alpha1
var Descriptor = plugin.Descriptor{
	Name:    name,
	Summary: "Holds pods to the Pod Security Standard that the labels of their namespace say",
	Manual:  manual,
	Remedy: "Change the fields that the message names, or have the namespace's label " +
		"pod-security.kubernetes.io/enforce name a level that allows them.",
	Phases:     plugin.Validating,
	Operations: []admission.Operation{admission.Create, admission.Update},
	Default:    true,
	Resources: slices.Concat(
		// The other subresources don't write the spec, and their objects aren't pods.
		plugin.On(podResource, "", "ephemeralcontainers", "resize"),
		plugin.On(namespaceResource),
		// Resources with a template of pods.
		plugin.On(corev1.Resource("podtemplates")), plugin.On(corev1.Resource("replicationcontrollers")),
		workloads("apps"), workloads("extensions"),
		plugin.On(batchv1.Resource("jobs")), plugin.On(batchv1.Resource("cronjobs")),
	),
	// Without the plugin the labels do nothing.
	Access: []rbacv1.PolicyRule{plugin.To("get list watch", "", "namespaces"), plugin.To("list", "", "pods")},
	Server: plugin.Server{
		Enforces: []plugin.Enforced{{Resource: namespaceResource, Labels: api.AuditAnnotationPrefix}},
	},
	New: func(config io.Reader, env *plugin.Env) (plugin.Plugin, error) {
		configured, err := load(config)
		if err != nil {
			return nil, err
		}
		found, err := namespaces.New(name, env)
		if err != nil {
			return nil, err
		}
		if env.Version == nil {
			return nil, errors.New(name + " needs the server's version")
		}
		checks, err := policy.NewEvaluator(policy.DefaultChecks(), emulated(env.Version))
		if err != nil {
			return nil, err
		}
		registerMetrics()
		return &podSecurity{
			configuration: configured,
			namespaces:    found,
			pods:          env.Client.CoreV1(),
			checks:        checks,
			newest:        minor(env.Version.BinaryVersion()),
		}, nil
	},
}

// workloads returns the resources of a group that have a template of pods. A group that lacks one
// of them doesn't serve it.
func workloads(group string) []plugin.Resource {
	var all []plugin.Resource
	for _, name := range []string{"deployments", "replicasets", "statefulsets", "daemonsets"} {
		all = append(all, plugin.Resource{Group: group, Resource: name})
	}
	return all
}

// emulated returns the release whose checks are the latest ones, nil if that is the server's own.
func emulated(server compatibility.EffectiveVersion) *api.Version {
	version := minor(server.EmulationVersion())
	if version == minor(server.BinaryVersion()) {
		return nil
	}
	return &version
}

// minor returns a release's major and minor version.
func minor(v interface {
	Major() uint
	Minor() uint
}) api.Version {
	return api.MajorMinorVersion(int(v.Major()), int(v.Minor()))
}

type podSecurity struct {
	configuration
	namespaces *namespaces.Namespaces
	pods       corev1client.PodsGetter
	checks     policy.Evaluator
	// newest is the server's own release. The metrics have one label for all later ones.
	newest api.Version
}

var _ plugin.Validator = &podSecurity{}

// Validate decides a request and reports the verdict.
func (p *podSecurity) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	var v *verdict
	switch a.GetResource().GroupResource() {
	case podResource:
		v = p.pod(ctx, a)
		v.count(a, pods, p.newest)
	case namespaceResource:
		v = p.namespace(ctx, a)
	default:
		v = p.template(ctx, a)
		v.count(a, templates, p.newest)
	}
	for _, text := range v.warnings {
		warning.AddWarning(ctx, "", text)
	}
	// a.AddAnnotation would check the key each time, for longer than most decisions take.
	apiaudit.AddAuditAnnotationsMap(ctx, v.audit)
	return v.refusal
}

// A verdict holds all that the plugin has to say of a request. Verdicts that are the same for many
// requests are shared, and must not be changed.
type verdict struct {
	// refusal is nil if the request is admitted.
	refusal  error
	warnings []string
	// audit has annotations of the audit event.
	audit map[string]string

	// The metrics count decisive evaluations of the pod, whether it was exempt from them, and
	// whether an error prevented them.
	evaluations []evaluation
	exempt      bool
	failed      failure
}

type evaluation struct {
	mode     mode
	against  api.LevelVersion
	violated bool
}

type mode string

const (
	enforce mode = "enforce"
	audit   mode = "audit"
	warn    mode = "warn"
)

type failure uint8

const (
	// none: all was evaluated as the namespace says.
	none failure = iota
	// unreadable means that labels couldn't be parsed, and the strictest level was enforced.
	unreadable
	// fatal: there was nothing to evaluate, or nothing to evaluate it against.
	fatal
)

// The audit annotations.
const (
	exemptKey     = api.AuditAnnotationPrefix + api.ExemptionReasonAnnotationKey
	enforcedKey   = api.AuditAnnotationPrefix + api.EnforcedPolicyAnnotationKey
	violationsKey = api.AuditAnnotationPrefix + api.AuditViolationsAnnotationKey
	errorKey      = api.AuditAnnotationPrefix + "error"
)

var (
	// unremarkable is the verdict that admits and says nothing.
	unremarkable = &verdict{}

	exemptNamespace    = exemptVerdict("namespace")
	exemptUser         = exemptVerdict("user")
	exemptRuntimeClass = exemptVerdict("runtimeClass")
)

func exemptVerdict(by string) *verdict {
	return &verdict{exempt: true, audit: map[string]string{exemptKey: by}}
}

// unexpected returns the verdict on a request that can't be decided. Only the audit log has the
// error: users aren't told about failures inside the server.
func unexpected(refusal error, err error) *verdict {
	text := refusal.Error()
	if err != nil {
		text += ": " + err.Error()
	}
	return &verdict{refusal: refusal, failed: fatal, audit: map[string]string{errorKey: text}}
}

// exempt returns the verdict on requests of exempt users and in exempt namespaces, nil for others.
func (p *podSecurity) exempt(a admission.Attributes) *verdict {
	if hasName(p.exempted.namespaces, a.GetNamespace()) {
		return exemptNamespace
	}
	if user := a.GetUserInfo(); user != nil && hasName(p.exempted.users, user.GetName()) {
		return exemptUser
	}
	return nil
}

func hasName(names sets.Set[string], name string) bool { return len(names) > 0 && names.Has(name) }
