// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"gatehouse.dev/apis/decisions/v1alpha1"
)

// Values says which values decisions show.
type Values string

// With ValuesHidden, values of environment variables, arguments, commands and headers are hidden.
// With ValuesShown they are shown. Values of Secrets, and values that are named as credentials are,
// are hidden always.
const (
	ValuesHidden Values = "hidden"
	ValuesShown  Values = "shown"
)

// secrets has the rules for hiding values of a resource's objects.
type secrets struct {
	resource schema.GroupResource
	values   Values
}

// HiddenValue takes the place of a value that is hidden.
const HiddenValue = "(changed; the value is not shown)"

var hiddenJSON, _ = json.Marshal(HiddenValue)

// harmlessFields have names of credentials, and name or describe a credential.
var harmlessFields = map[string]bool{
	"automountServiceAccountToken": true, "serviceAccountToken": true, "imagePullSecrets": true, "secret": true,
	"secrets": true, "boundServiceAccountToken": true,
}

// harmlessVariables are environment variables whose values are shown. docs/why.md lists them.
var harmlessVariables = map[string]bool{
	"DEBUG": true, "ENV": true, "ENVIRONMENT": true, "GOGC": true, "GOMAXPROCS": true, "GOMEMLIMIT": true,
	"HOME": true, "HOST": true, "HOSTNAME": true, "LANG": true, "LC_ALL": true, "LOG_FORMAT": true, "LOG_LEVEL": true,
	"NAMESPACE": true, "NODE_ENV": true, "NODE_NAME": true, "PATH": true, "POD_IP": true, "POD_NAME": true,
	"POD_NAMESPACE": true, "PORT": true, "TZ": true,
}

// wholeObjects are annotations that hold an object as it was sent.
var wholeObjects = map[string]bool{
	"kubectl.kubernetes.io/last-applied-configuration": true,
	"kapp.k14s.io/original":                            true,
	"kapp.k14s.io/original-diff":                       true,
	"banzaicloud.com/last-applied":                     true,
	"objectset.rio.cattle.io/applied":                  true,
}

// These lists may hold credentials under names that don't say so. pairLists have a name and a value
// in each element, textLists only texts.
var (
	pairLists = map[string]bool{"env": true, "httpHeaders": true}
	textLists = map[string]bool{"args": true, "command": true}
)

// ofPatch hides the secret values of a patch.
func (s secrets) ofPatch(patch []v1alpha1.PatchOperation) []v1alpha1.PatchOperation {
	for i := range patch {
		if o := &patch[i]; o.Value != nil {
			o.Value.Raw = s.hidden(o.Path, o.Value.Raw)
		}
	}
	return patch
}

// HideSecret returns the JSON of a Secret with its values hidden: data, annotations, and whatever is
// named as a credential.
func HideSecret(object []byte) []byte {
	return secrets{schema.GroupResource{Resource: "secrets"}, ValuesShown}.hidden("", object)
}

// HideValue returns the JSON of a value at a JSON pointer in an object of a resource, hidden as decisions hide it.
func HideValue(resource schema.GroupResource, values Values, pointer string, raw []byte) []byte {
	return secrets{resource, values}.hidden(pointer, raw)
}

// hideValues hides all values of a patch.
func hideValues(patch []v1alpha1.PatchOperation) {
	for i := range patch {
		if patch[i].Value != nil {
			patch[i].Value = &v1alpha1.Value{Raw: hiddenJSON}
		}
	}
}

// hidden returns the value at a path without the secrets in it.
func (s secrets) hidden(path string, raw []byte) []byte {
	var segments []string
	if path != "" {
		segments = strings.Split(strings.TrimPrefix(path, "/"), "/")
	}
	for i := range segments {
		if strings.Contains(segments[i], "~") {
			segments[i] = unescaper.Replace(segments[i])
		}
		if s.hides(segments[:i+1]) {
			return hiddenJSON
		}
	}
	if n := len(segments); n > 2 && segments[n-1] == "value" && pairLists[segments[n-3]] && s.values != ValuesShown {
		return hiddenJSON // its name isn't known here
	}
	if n := len(segments); n > 2 && segments[n-1] == "value" && segments[n-3] == "env" {
		return hiddenJSON // its name may be that of a credential
	}
	if len(raw) == 0 || raw[0] != '{' && raw[0] != '[' || !s.mayHide(raw) {
		return raw
	}
	var value any
	if json.Unmarshal(raw, &value) != nil {
		return hiddenJSON
	}
	cleaned, found := s.clean(segments, value)
	if !found {
		return raw
	}
	shown, err := json.Marshal(cleaned)
	if err != nil {
		return hiddenJSON
	}
	return shown
}

// mayHide reports whether clean could hide something in a JSON text. It only looks at the names of
// fields, and takes a tenth of the time of decoding the text. A name ends at `":` unless something
// is escaped or there is space between tokens.
func (s secrets) mayHide(raw []byte) bool {
	if s.ofSecret() || bytes.ContainsAny(raw, "\\ \t\r\n") {
		return true
	}
	for {
		before, rest, ok := bytes.Cut(raw, []byte(`":`))
		if !ok {
			return false
		}
		name := string(before[bytes.LastIndexByte(before, '"')+1:])
		if name == "value" || textLists[name] || wholeObjects[name] || isCredential(name) {
			return true
		}
		raw = rest
	}
}

// clean returns a value with its secrets hidden, and whether there were any.
func (s secrets) clean(path []string, value any) (any, bool) {
	found := false
	switch value := value.(type) {
	case map[string]any:
		name, _ := value["name"].(string)
		for key, field := range value {
			at := append(path, key)
			if s.hides(at) || key == "value" && s.hidesVariable(path, name) {
				value[key], found = HiddenValue, true
				continue
			}
			cleaned, any := s.clean(at, field)
			value[key], found = cleaned, found || any
		}
	case []any:
		for i := range value {
			cleaned, any := s.clean(append(path, "-"), value[i])
			value[i], found = cleaned, found || any
		}
	}
	return value, found
}

// hidesVariable reports whether the value of an object at a path, with a name, is hidden.
func (s secrets) hidesVariable(path []string, name string) bool {
	if isCredential(name) {
		return true
	}
	return s.values != ValuesShown && len(path) > 1 && pairLists[path[len(path)-2]] && !harmlessVariables[name]
}

// hides reports whether the last name of a path hides what is there.
func (s secrets) hides(path []string) bool {
	last, parent := path[len(path)-1], ""
	if len(path) > 1 {
		parent = path[len(path)-2]
	}
	switch {
	case s.ofSecret() && len(path) == 2 &&
		(parent == "data" || parent == "stringData"):
		return true
	case s.ofSecret() && len(path) == 3 && parent == "annotations":
		return true // webhooks and policies copy data into annotations
	case parent == "annotations" && wholeObjects[last]:
		return true
	case textMaps[parent]:
		return false
	case textLists[last] && s.values != ValuesShown:
		return true
	}
	return isCredential(last)
}

// ofSecret reports whether the objects are Secrets.
func (s secrets) ofSecret() bool { return s.resource == schema.GroupResource{Resource: "secrets"} }

// textMaps are the maps of labels, names and selectors. Their keys don't say what a value is.
var textMaps = map[string]bool{"labels": true, "finalizers": true, "matchLabels": true, "nodeSelector": true,
	"selector": true}

// credentials are the ends of names of fields, keys and environment variables that hold one. Names
// of keys may have a separator before the end.
var (
	credentials = []string{"password", "passwd", "passphrase", "secret", "token", "credential"}
	keys        = []string{"api", "private", "access", "secret"}
)

// isCredential reports whether a name is that of a credential.
func isCredential(name string) bool {
	singular := strings.ToLower(name)
	singular = strings.TrimSuffix(strings.TrimSuffix(singular, "s"), "s")
	for _, word := range credentials {
		if strings.HasSuffix(singular, word) {
			return !harmlessFields[name]
		}
	}
	of, isKey := strings.CutSuffix(singular, "key")
	if !isKey {
		return false
	}
	of = strings.TrimRight(of, "-_. ")
	return slices.ContainsFunc(keys, func(word string) bool { return strings.HasSuffix(of, word) })
}

var unescaper = strings.NewReplacer("~1", "/", "~0", "~")
