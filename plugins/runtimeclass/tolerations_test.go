// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package runtimeclass

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
)

// read makes tolerations of words like "key=value:Effect@seconds", "key:Effect", which is for all
// values, and "*", which is for all keys. A "~" before one leaves its operator out, a "<" makes it
// a numeric one.
func read(text string) []corev1.Toleration {
	var all []corev1.Toleration
	for _, word := range strings.Fields(text) {
		var t corev1.Toleration
		word, seconds, limited := strings.Cut(word, "@")
		word, effect, _ := strings.Cut(word, ":")
		key, value, hasValue := strings.Cut(word, "=")
		t.Effect, t.Value, t.Operator = corev1.TaintEffect(effect), value, corev1.TolerationOpExists
		if hasValue {
			t.Operator = corev1.TolerationOpEqual
		}
		if limited {
			t.TolerationSeconds = new(int64)
			fmt.Sscan(seconds, t.TolerationSeconds)
		}
		switch key[0] {
		case '~':
			t.Operator, key = "", key[1:]
		case '<':
			t.Operator, key = corev1.TolerationOpLt, key[1:]
		}
		t.Key = strings.Trim(key, "*")
		all = append(all, t)
	}
	return all
}

// Upstream: TestMergeTolerations and TestIsSuperset in pkg/util/tolerations/tolerations_test.go.
func TestMerge(t *testing.T) {
	for name, test := range map[string]struct{ pod, class, want string }{
		"nothing":                        {"", "", ""},
		"the pod's alone":                {"a:NoSchedule", "", "a:NoSchedule"},
		"the class's alone":              {"", "a:NoSchedule", "a:NoSchedule"},
		"others":                         {"a:NoSchedule", "b=1", "a:NoSchedule b=1"},
		"the same":                       {"a=1 b", "b a=1", "a=1 b"},
		"the pod's is wider":             {"a", "a=1:NoSchedule a:NoExecute@5", "a"},
		"the class's is wider":           {"a=1:NoSchedule b a:NoExecute@5", "a", "b a"},
		"the pod's own cover each other": {"a=1 a", "", "a"},
		"so do the class's":              {"", "a=1 b a", "b a"},
		"all keys":                       {"a=1 b:NoExecute", "*", "*"},
		"all keys of an effect": {"a=1:NoSchedule b:NoExecute", "*:NoExecute",
			"a=1:NoSchedule *:NoExecute"},
		"longer":                           {"a:NoExecute@5", "a:NoExecute@6", "a:NoExecute@6"},
		"for ever":                         {"a:NoExecute@5", "a:NoExecute", "a:NoExecute"},
		"not as long":                      {"a:NoExecute", "a:NoExecute@5", "a:NoExecute"},
		"another value":                    {"a=1", "a=2", "a=1 a=2"},
		"no operator is covered by Exists": {"~a=1", "a", "a"},
		"no operator in the class":         {"a=1", "~a=1", "~a=1"},
		"no operator in the pod":           {"~a=1", "a=1", "~a=1"},
		"no operator in both":              {"~a=1", "~a=1", "~a=1"},
		"no key and no operator isn't all": {"a=1", "~*=", "a=1 ~*="},
		"a comparison covers itself":       {"<a=1", "<a=1", "<a=1"},
		"and nothing else":                 {"a=1 <a=2", "<a=1", "a=1 <a=2 <a=1"},
		"an effect of any seconds by Equal": {"a=1:NoExecute@5", "a=1:NoExecute@9 a=2:NoExecute@9",
			"a=1:NoExecute@9 a=2:NoExecute@9"},
	} {
		t.Run(name, func(t *testing.T) {
			got, want := merge(read(test.pod), read(test.class)), read(test.want)
			if !apiequality.Semantic.DeepEqual(got, want) {
				t.Errorf("got %v\nwant %v", got, want)
			}
		})
	}
}

// Of very many tolerations a pod's own aren't compared with each other.
func TestMergeMany(t *testing.T) {
	var pod []corev1.Toleration
	for i := range 100_000 {
		pod = append(pod, corev1.Toleration{Key: fmt.Sprint("key-", i), Operator: corev1.TolerationOpExists})
	}
	pod = append(pod, read("key-0=1 covered=1")...)
	merged := merge(pod, read("key-5 other covered"))
	if len(merged) != 100_003 || merged[100_002].Key != "covered" || merged[100_000].Value != "1" {
		t.Errorf("%d: %v", len(merged), merged[99_999:])
	}
}
