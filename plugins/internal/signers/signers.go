// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package signers asks an authorizer, for the plugins for certificates, whether a user may do
// something for a signer.
//
// Signers are names of a domain and a path, such as example.com/serving, not objects. Rights are
// granted as if they were objects of the resource signers in certificates.k8s.io: for the name
// itself, or for all of a domain by example.com/*.
package signers

import (
	"context"
	"errors"
	"io"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/klog/v2"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/pluginconfig"
)

// Needs is called in the New of a plugin that asks an authorizer and takes no configuration. The
// error names the plugin.
func Needs(plugin string, config io.Reader, env *plugin.Env) error {
	if err := pluginconfig.None(plugin, config); err != nil {
		return err
	}
	if env.Authorizer == nil {
		return errors.New(plugin + " needs an authorizer")
	}
	return nil
}

// Allowed reports whether the user may do verb for a signer, by the signer's name or by its domain.
// It returns false if the authorizer fails.
func Allowed(ctx context.Context, authz authorizer.UnconditionalAuthorizer, info user.Info, verb, signer string) bool {
	domain, _, _ := strings.Cut(signer, "/")
	for _, name := range []string{signer, domain + "/*"} {
		decision, reason, err := authz.Authorize(ctx, authorizer.AttributesRecord{
			User: info, Verb: verb, ResourceRequest: true,
			APIGroup: certificatesv1.GroupName, APIVersion: "*", Resource: "signers", Name: name,
		})
		if err != nil {
			klog.FromContext(ctx).V(3).Info("Authorization for a signer failed", "verb", verb, "signer", name,
				"reason", reason, "err", err)
		} else if decision == authorizer.DecisionAllow {
			return true
		}
	}
	return false
}
