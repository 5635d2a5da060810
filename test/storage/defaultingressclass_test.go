// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package storage_test

import (
	"fmt"
	"testing"

	"gatehouse.dev/test/servertest"
)

func TestDefaultIngressClass(t *testing.T) {
	t.Parallel()
	const (
		class = `{"apiVersion": "networking.k8s.io/v1", "kind": "IngressClass", "metadata": {"name": "%s"%s}, ` +
			`"spec": {"controller": "example.com/c"}}`
		marks = `, "annotations": {"ingressclass.kubernetes.io/is-default-class": "true"}`
	)
	c := servertest.Start(t)
	k := c.Kubectl(t, c.Namespace(t, nil))
	number := 0
	newIngress := func(args ...string) string {
		number++
		name := fmt.Sprint("i", number)
		k.OK("", append([]string{"create", "ingress", name, "--rule=example.com/*=web:80"}, args...)...)
		return k.OK("", "get", "ingress", name, "--output=jsonpath={.spec.ingressClassName}")
	}
	k.OK(fmt.Sprintf(class, "plain", ""), "create", "--filename=-")
	if got := newIngress(); got != "" {
		t.Errorf("with no default class, an Ingress has class %q", got)
	}
	k.OK(fmt.Sprintf(class, "usual", marks), "create", "--filename=-")
	servertest.Eventually(t, "usual to be the default class", func() bool { return newIngress() == "usual" })
	if got := newIngress("--class=plain"); got != "plain" {
		t.Errorf("an Ingress that names a class has class %q", got)
	}
	if got := newIngress("--annotation=kubernetes.io/ingress.class=other"); got != "" {
		t.Errorf("an Ingress that names a class by annotation has class %q", got)
	}
	k.OK("", "delete", "ingressclass", "usual")
	servertest.Eventually(t, "no default class", func() bool { return newIngress() == "" })
}
