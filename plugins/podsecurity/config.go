// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package podsecurity

import (
	"fmt"
	"io"
	"strings"

	machineryvalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/pod-security-admission/api"

	"gatehouse.dev/plugin/pluginconfig"
)

// apiVersions holds the versions of PodSecurityConfiguration. They have the same fields and
// defaults.
var apiVersions = []string{
	"pod-security.admission.config.k8s.io/v1",
	"pod-security.admission.config.k8s.io/v1beta1",
	"pod-security.admission.config.k8s.io/v1alpha1",
}

// configuration holds the content of a PodSecurityConfiguration.
type configuration struct {
	// defaults applies to everything that a namespace's labels don't say.
	defaults api.Policy
	exempted struct {
		users, namespaces, runtimeClasses sets.Set[string]
	}
}

// fileFormat holds the content of a PodSecurityConfiguration as it is written.
type fileFormat struct {
	// Defaults apply to everything that a namespace's labels don't say.
	Defaults struct {
		// Enforce is the level that pods must meet.
		//
		//schema:enum ["privileged", "baseline", "restricted", ""]
		//schema:default "privileged"
		Enforce string `json:"enforce"`
		// EnforceVersion is the version of Kubernetes whose rules it means, such as v1.37.
		//
		//schema:pattern "^(|latest|v1\\.(0|[1-9][0-9]*))$"
		//schema:default "latest"
		EnforceVersion string `json:"enforce-version"`
		// Audit is the level that the audit log notes pods for that don't meet it.
		//
		//schema:enum ["privileged", "baseline", "restricted", ""]
		//schema:default "privileged"
		Audit string `json:"audit"`
		// AuditVersion is the version of Kubernetes whose rules it means, such as v1.37.
		//
		//schema:pattern "^(|latest|v1\\.(0|[1-9][0-9]*))$"
		//schema:default "latest"
		AuditVersion string `json:"audit-version"`
		// Warn is the level that clients are warned for that create a pod which doesn't meet it.
		//
		//schema:enum ["privileged", "baseline", "restricted", ""]
		//schema:default "privileged"
		Warn string `json:"warn"`
		// WarnVersion is the version of Kubernetes whose rules it means, such as v1.37.
		//
		//schema:pattern "^(|latest|v1\\.(0|[1-9][0-9]*))$"
		//schema:default "latest"
		WarnVersion string `json:"warn-version"`
	} `json:"defaults"`
	// Exemptions are requests that the plugin leaves alone.
	Exemptions struct {
		// Usernames are users whose requests are exempt.
		//
		//schema:items {"type": "string", "minLength": 1}
		//schema:uniqueItems true
		Usernames []string `json:"usernames"`
		// Namespaces are namespaces whose pods are exempt.
		//
		//schema:items {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "maxLength": 63}
		//schema:uniqueItems true
		Namespaces []string `json:"namespaces"`
		// RuntimeClasses are names of RuntimeClasses whose pods are exempt.
		//
		//schema:items {"type": "string", "minLength": 1}
		//schema:uniqueItems true
		RuntimeClasses []string `json:"runtimeClasses"`
	} `json:"exemptions"`
}

// load reads the plugin's configuration. Without one, namespaces without labels are privileged and
// nothing is exempt.
func load(config io.Reader) (configuration, error) {
	var written fileFormat
	if _, err := pluginconfig.Versions(name, config, apiVersions, "PodSecurityConfiguration", &written); err != nil {
		return configuration{}, err
	}
	var c configuration
	var errs field.ErrorList
	defaults := field.NewPath("defaults")
	read := func(into *api.LevelVersion, mode mode, level, version string) {
		var err error
		if into.Level, err = api.ParseLevel(orDefault(level, string(api.LevelPrivileged))); err != nil {
			errs = append(errs, field.Invalid(defaults.Child(string(mode)), level, err.Error()))
		}
		if into.Version, err = api.ParseVersion(orDefault(version, api.VersionLatest)); err != nil {
			errs = append(errs, field.Invalid(defaults.Child(string(mode)+"-version"), version, err.Error()))
		}
	}
	read(&c.defaults.Enforce, enforce, written.Defaults.Enforce, written.Defaults.EnforceVersion)
	read(&c.defaults.Warn, warn, written.Defaults.Warn, written.Defaults.WarnVersion)
	read(&c.defaults.Audit, audit, written.Defaults.Audit, written.Defaults.AuditVersion)

	exemptions := field.NewPath("exemptions")
	collect := func(list string, names []string, wrong func(string) []string) sets.Set[string] {
		set := sets.New[string]()
		for i, name := range names {
			path := exemptions.Child(list).Index(i)
			if wrong := wrong(name); len(wrong) > 0 {
				errs = append(errs, field.Invalid(path, name, strings.Join(wrong, ", ")))
			} else if set.Has(name) {
				errs = append(errs, field.Duplicate(path, name))
			}
			set.Insert(name)
		}
		return set
	}
	c.exempted.namespaces = collect("namespaces", written.Exemptions.Namespaces, func(name string) []string {
		return machineryvalidation.ValidateNamespaceName(name, false)
	})
	c.exempted.runtimeClasses = collect("runtimeClasses", written.Exemptions.RuntimeClasses,
		func(name string) []string { return machineryvalidation.NameIsDNSSubdomain(name, false) })
	c.exempted.users = collect("usernames", written.Exemptions.Usernames, func(name string) []string {
		if name == "" {
			return []string{"username must not be empty"}
		}
		return nil
	})
	if len(errs) > 0 {
		return configuration{}, fmt.Errorf("the configuration of %s: %w", name, errs.ToAggregate())
	}
	return c, nil
}

func orDefault(value, byDefault string) string {
	if value == "" {
		return byDefault
	}
	return value
}
