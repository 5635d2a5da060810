// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/version"

	"gatehouse.dev/internal/inventory"
)

// A callee is what API servers call: a webhook of a configuration, or the conversion webhook of a
// CustomResourceDefinition.
type callee struct {
	document     place // of its clientConfig
	clientConfig admissionregistrationv1.WebhookClientConfig
	// consequence says what becomes of requests if calls fail.
	consequence string
}

// at returns the place of a field of the clientConfig.
func (c *callee) at(field string) place {
	p := c.document
	if field != "" {
		p.path += "/" + field
	}
	return p
}

// callees returns all webhooks, and then all conversion webhooks.
func (l *linting) callees() (all []callee) {
	for _, w := range l.Webhooks {
		all = append(all, callee{at(w, "clientConfig"), w.ClientConfig, consequence(w.Fails())})
	}
	for _, d := range l.Definitions {
		if stated := conversionOf(d); stated != nil {
			c := callee{document: place{d.Document, "/spec/conversion/webhook/clientConfig", ""},
				clientConfig: admissionregistrationv1.WebhookClientConfig{URL: stated.URL, CABundle: stated.CABundle},
				consequence: fmt.Sprintf("%s can't be read or written in another version than they are stored in",
					d.Spec.Names.Plural)}
			if s := stated.Service; s != nil {
				c.clientConfig.Service = &admissionregistrationv1.ServiceReference{Namespace: s.Namespace, Name: s.Name,
					Path: s.Path, Port: s.Port}
			}
			all = append(all, c)
		}
	}
	return all
}

// consequence says what becomes of a request if a call fails.
func consequence(fails bool) string {
	if fails {
		return "each request that it would be asked about is refused"
	}
	return "requests pass without it"
}

// conversionOf returns how the conversion webhook of a CustomResourceDefinition is called; nil if it has none.
func conversionOf(d *inventory.Definition) *apiextensionsv1.WebhookClientConfig {
	if c := d.Spec.Conversion; c != nil && c.Strategy == apiextensionsv1.WebhookConverter && c.Webhook != nil {
		return c.Webhook.ClientConfig
	}
	return nil
}

// conversionOutage looks for CustomResourceDefinitions whose objects are converted whenever a controller or kubectl reads
// them: these use the preferred version.
func (l *linting) conversionOutage() {
	for _, d := range l.Definitions {
		if conversionOf(d) == nil {
			continue
		}
		var served []string
		stored := ""
		for i := range d.Spec.Versions {
			if v := &d.Spec.Versions[i]; v.Served {
				served = append(served, v.Name)
			}
			if v := &d.Spec.Versions[i]; v.Storage {
				stored = v.Name
			}
		}
		if len(served) == 0 || stored == "" {
			continue
		}
		preferred := slices.MaxFunc(served, version.CompareKubeAwareVersionStrings)
		if preferred == stored {
			continue
		}
		l.add(place{d.Document, "/spec/conversion", ""}, Warning, change{}, fmt.Sprintf("%s are stored in %s, and clients "+
			"prefer %s: while the conversion webhook can't be reached, kubectl, the garbage collector and the namespace "+
			"controller can't read any, and a namespace that has some can't be deleted", d.Spec.Names.Plural, stored, preferred),
			fmt.Sprintf("store them in %s, so that reading them needs no conversion, and run the webhook outside of what it "+
				"converts", preferred))
	}
}
