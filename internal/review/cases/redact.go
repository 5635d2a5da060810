// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gatehouse.dev/internal/decision"
)

const serviceAccountPrefix = "system:serviceaccount:"

// A redactor replaces what tells where a request comes from. Equal values become equal ones, in all
// requests, so that selectors and references still fit.
type redactor struct {
	// known are the replacements by kind and value, such as "name web".
	known map[string]string
	// count is the number of replacements of a kind.
	count map[string]int
}

func newRedactor() *redactor { return &redactor{known: map[string]string{}, count: map[string]int{}} }

// replace returns the replacement of a value of a kind.
func (r *redactor) replace(kind, value string) string {
	if value == "" {
		return ""
	}
	key := kind + " " + value
	if r.known[key] == "" {
		r.count[kind]++
		r.known[key] = fmt.Sprintf("%s-%d", kind, r.count[kind])
	}
	return r.known[key]
}

// publicNamespaces are in every cluster, and plugins treat some of them in their own way.
var publicNamespaces = []string{"default", "kube-system", "kube-public", "kube-node-lease"}

func (r *redactor) namespace(name string) string {
	if slices.Contains(publicNamespaces, name) {
		return name
	}
	return r.replace("namespace", name)
}

// user returns the replacement of a user's name. Those of Kubernetes' components stay.
func (r *redactor) user(name string) string {
	if account, ok := strings.CutPrefix(name, serviceAccountPrefix); ok {
		namespace, account, _ := strings.Cut(account, ":")
		return serviceAccountPrefix + r.namespace(namespace) + ":" + r.replace("name", account)
	}
	if strings.HasPrefix(name, "system:") && !strings.HasPrefix(name, "system:node:") {
		return name
	}
	return r.replace("user", name)
}

// group returns the replacement of a group's name. Those of Kubernetes stay.
func (r *redactor) group(name string) string {
	if namespace, ok := strings.CutPrefix(name, "system:serviceaccounts:"); ok {
		return "system:serviceaccounts:" + r.namespace(namespace)
	}
	if strings.HasPrefix(name, "system:") {
		return name
	}
	return r.replace("group", name)
}

// image returns the replacement of an image. Its tag stays, and that it has a digest.
func (r *redactor) image(image string) string {
	repository, digest, hasDigest := strings.Cut(image, "@")
	tag := ""
	if colon := strings.LastIndexByte(repository, ':'); colon > strings.LastIndexByte(repository, '/') {
		repository, tag = repository[:colon], repository[colon:]
	}
	redacted := "registry.example.com/" + r.replace("image", repository) + tag
	if algorithm, sum, ok := strings.Cut(digest, ":"); hasDigest && ok {
		redacted += "@" + algorithm + ":" + strings.Repeat("0", len(sum))
	}
	return redacted
}

// object replaces values in an object, which may be nil. Annotations, data, environment variables,
// arguments and commands lose their values as well.
func (r *redactor) object(object *unstructured.Unstructured) {
	if object == nil {
		return
	}
	decision.HideValues(object.Object, func(string) bool { return false })
	r.fields("", object.Object)
	if object.GetKind() == "Namespace" {
		object.SetName(r.namespace(object.GetName()))
	}
}

// labelMaps are the fields that hold labels, or select by them.
var labelMaps = map[string]bool{"labels": true, "matchLabels": true, "nodeSelector": true, "selector": true}

// namedApart are the lists whose names tell nothing of the outside, or have a meaning.
var namedApart = map[string]bool{"env": true, "ports": true, "httpHeaders": true, "versions": true}

// fields replaces values in a mapping, which is the field of a name.
func (r *redactor) fields(parent string, mapping map[string]any) {
	kind, _ := mapping["kind"].(string)
	for _, name := range slices.Sorted(maps.Keys(mapping)) {
		switch value := mapping[name].(type) {
		case string:
			mapping[name] = r.text(parent, name, kind, value)
		case map[string]any:
			r.fields(name, value)
		case []any:
			r.list(name, value)
		}
	}
}

func (r *redactor) list(name string, list []any) {
	for i, element := range list {
		switch element := element.(type) {
		case map[string]any:
			r.fields(name, element)
		case []any:
			r.list(name, element)
		case string:
			if name == "values" { // of a selector
				list[i] = r.replace("value", element)
			}
		}
	}
}

// text returns the replacement of a text, which is a field of the field parent. kind is the kind beside it.
func (r *redactor) text(parent, name, kind, value string) string {
	switch {
	case labelMaps[parent]:
		return r.replace("value", value)
	case parent == "annotations" || parent == "data":
		return r.replace("value", value)
	case name == "image":
		return r.image(value)
	case name == "namespace":
		return r.namespace(value)
	case parent == "subjects" && name == "name" && kind == "User":
		return r.user(value)
	case parent == "subjects" && name == "name" && kind == "Group":
		return r.group(value)
	case name == "uid":
		return "00000000-0000-0000-0000-000000000000"
	case name == "generateName":
		return r.replace("name", value) + "-"
	case namedApart[parent]:
		return value
	case name == "name" || name == "serviceAccount" || name == "hostname" || name == "host",
		strings.HasSuffix(name, "Name") && !publicNames[name]:
		return r.replace("name", value)
	}
	return value
}

// publicNames are names of what clusters have in common.
var publicNames = map[string]bool{"priorityClassName": true, "runtimeClassName": true, "storageClassName": true,
	"ingressClassName": true, "schedulerName": true, "gatewayClassName": true}
