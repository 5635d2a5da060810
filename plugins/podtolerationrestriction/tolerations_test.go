// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package podtolerationrestriction

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"gatehouse.dev/plugins/internal/tolerations"
)

// read makes tolerations of "foo=bar:NoSchedule foo:NoExecute@10 *": key=value of operator Equal,
// key alone of Exists, * for all keys; then, where there are, the effect, and seconds.
func read(text string) []corev1.Toleration {
	var all []corev1.Toleration
	for _, one := range strings.Fields(text) {
		t := corev1.Toleration{Operator: corev1.TolerationOpExists}
		one, seconds, limited := strings.Cut(one, "@")
		if limited {
			t.TolerationSeconds = new(int64)
			fmt.Sscan(seconds, t.TolerationSeconds)
		}
		one, effect, _ := strings.Cut(one, ":")
		t.Effect = corev1.TaintEffect(effect)
		key, value, equal := strings.Cut(one, "=")
		if equal {
			t.Operator, t.Value = corev1.TolerationOpEqual, value
		}
		if key != "*" {
			t.Key = key
		}
		all = append(all, t)
	}
	return all
}

func one(text string) corev1.Toleration { return read(text)[0] }

// What each toleration covers besides itself; all others it doesn't. The cases of TestIsSuperset in
// k8s.io/kubernetes/pkg/util/tolerations/tolerations_test.go.
func TestCovers(t *testing.T) {
	covered := map[string]string{
		"*": "*:NoSchedule *:NoExecute foo foo=bar foo:NoSchedule foo=bar:NoSchedule foo=baz:NoSchedule " +
			"faz:NoSchedule faz=baz:NoSchedule " +
			"foo:PreferNoSchedule foo:NoExecute foo=bar:NoExecute foo:NoExecute@10 foo:NoExecute@0 " +
			"foo=bar:NoExecute@10",
		"*:NoSchedule": "foo:NoSchedule foo=bar:NoSchedule foo=baz:NoSchedule faz:NoSchedule faz=baz:NoSchedule",
		"*:NoExecute":  "foo:NoExecute foo=bar:NoExecute foo:NoExecute@10 foo:NoExecute@0 foo=bar:NoExecute@10",
		"foo": "foo=bar foo:NoSchedule foo=bar:NoSchedule foo=baz:NoSchedule foo:PreferNoSchedule foo:NoExecute " +
			"foo=bar:NoExecute " +
			"foo:NoExecute@10 foo:NoExecute@0 foo=bar:NoExecute@10",
		"foo=bar":              "foo=bar:NoSchedule foo=bar:NoExecute foo=bar:NoExecute@10",
		"foo:NoSchedule":       "foo=bar:NoSchedule foo=baz:NoSchedule",
		"foo=bar:NoSchedule":   "",
		"foo=baz:NoSchedule":   "",
		"faz:NoSchedule":       "faz=baz:NoSchedule",
		"faz=baz:NoSchedule":   "",
		"foo:PreferNoSchedule": "",
		"foo:NoExecute":        "foo=bar:NoExecute foo:NoExecute@10 foo:NoExecute@0 foo=bar:NoExecute@10",
		"foo=bar:NoExecute":    "foo=bar:NoExecute@10",
		"foo:NoExecute@10":     "foo:NoExecute@0 foo=bar:NoExecute@10",
		"foo:NoExecute@0":      "",
		"foo=bar:NoExecute@10": "",
	}
	for wide, list := range covered {
		for narrow := range covered {
			want := wide == narrow || slices.Contains(strings.Fields(list), narrow)
			if got := tolerations.Covers(one(wide), one(narrow)); got != want {
				t.Errorf("%s covers %s: got %t, want %t", wide, narrow, got, want)
			}
		}
	}
}

func TestCoversByOperator(t *testing.T) {
	equal, implied := one("foo=5:NoSchedule"), one("foo=5:NoSchedule")
	implied.Operator = ""
	less, more := one("foo=5:NoSchedule"), one("foo=5:NoSchedule")
	less.Operator, more.Operator = corev1.TolerationOpLt, corev1.TolerationOpGt
	unknown := one("foo=5:NoSchedule")
	unknown.Operator = "Like"
	for name, test := range map[string]struct {
		wide, narrow corev1.Toleration
		want         bool
	}{
		"Equal may not be left out":        {equal, implied, false},
		"by both, for the same":            {implied, implied, true},
		"on the other side, too":           {implied, equal, true},
		"nor with a wider effect":          {one("foo=5"), implied, false},
		"a comparison covers itself":       {less, less, true},
		"not another one":                  {less, more, false},
		"nor its value":                    {less, equal, false},
		"a value covers no comparison":     {equal, less, false},
		"Exists does":                      {one("foo:NoSchedule"), less, true},
		"an unknown one covers itself":     {unknown, unknown, true},
		"and nothing else":                 {unknown, equal, false},
		"no key and Equal is not all keys": {corev1.Toleration{}, equal, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tolerations.Covers(test.wide, test.narrow); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

// The first five cases are those of TestMergeTolerations in
// k8s.io/kubernetes/pkg/util/tolerations/tolerations_test.go.
func TestMerge(t *testing.T) {
	for name, test := range map[string]struct{ pod, additions, want string }{
		"disjoint": {"foo=bar:NoSchedule faz=baz:NoSchedule foo:NoExecute@10",
			"foo:PreferNoSchedule foo=baz:NoSchedule",
			"foo=bar:NoSchedule faz=baz:NoSchedule foo:NoExecute@10 foo:PreferNoSchedule foo=baz:NoSchedule"},
		"duplicate": {"foo=bar:NoSchedule faz=baz:NoSchedule foo:NoExecute@10",
			"foo=bar:NoSchedule faz=baz:NoSchedule foo:NoExecute@10",
			"foo=bar:NoSchedule faz=baz:NoSchedule foo:NoExecute@10"},
		"merge redundant": {"foo=bar:NoSchedule foo=baz:NoSchedule", "foo:NoSchedule faz=baz:NoSchedule",
			"foo:NoSchedule faz=baz:NoSchedule"},
		"merge all":                 {"foo=bar:NoSchedule foo=baz:NoSchedule foo:NoExecute@10", "*", "*"},
		"merge into all":            {"*", "foo=bar:NoSchedule foo=baz:NoSchedule foo:NoExecute@10", "*"},
		"nothing to":                {"", "a b", "a b"},
		"nothing":                   {"a b", "", "a b"},
		"redundant additions":       {"", "foo=bar foo foo=baz", "foo"},
		"the same one twice":        {"", "foo foo", "foo"},
		"redundant in the pod":      {"foo=bar foo foo", "", "foo=bar foo foo"},
		"it tolerates longer":       {"foo:NoExecute@60", "foo:NoExecute@300", "foo:NoExecute@300"},
		"the pod does":              {"foo:NoExecute@300", "foo:NoExecute@60", "foo:NoExecute@300"},
		"the pod does all the time": {"foo:NoExecute", "foo:NoExecute@60", "foo:NoExecute"},
	} {
		t.Run(name, func(t *testing.T) {
			pod, additions := read(test.pod), read(test.additions)
			got := merge(pod, additions)
			if want := read(test.want); !apiequality.Semantic.DeepEqual(got, want) {
				t.Errorf("got  %v\nwant %v", got, want)
			}
			if !apiequality.Semantic.DeepEqual(pod, read(test.pod)) ||
				!apiequality.Semantic.DeepEqual(additions, read(test.additions)) {
				t.Error("an argument is changed")
			}
		})
	}
}

// Whatever is merged is still tolerated, and is the same when merged again.
func TestMergeLosesNothing(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	some := func() string {
		var list []string
		for range random.IntN(8) {
			key := []string{"a", "b", "c", "*"}[random.IntN(4)]
			if key != "*" && random.IntN(2) == 0 {
				key += []string{"=x", "=y"}[random.IntN(2)]
			}
			list = append(list,
				key+[]string{"", ":NoSchedule", ":NoExecute", ":NoExecute@5", ":NoExecute@7"}[random.IntN(5)])
		}
		return strings.Join(list, " ")
	}
	for range 2000 {
		pod, additions := some(), some()
		merged := merge(read(pod), read(additions))
		for _, t1 := range append(read(pod), read(additions)...) {
			if !isCovered(t1, merged) {
				t.Errorf("%q and %q: %v is not in %v", pod, additions, t1, merged)
			}
		}
		if again := merge(merged, read(additions)); !apiequality.Semantic.DeepEqual(again, merged) {
			t.Errorf("%q and %q: %v, then %v", pod, additions, merged, again)
		}
	}
}

// Whose seconds a pod has are its own, to change.
func TestMergeSharesNothing(t *testing.T) {
	additions := read("foo:NoExecute@60")
	*merge(nil, additions)[0].TolerationSeconds = 1
	if *additions[0].TolerationSeconds != 60 {
		t.Errorf("the addition has become %v", additions[0])
	}
}

func TestConflicts(t *testing.T) {
	for name, test := range map[string]struct {
		pod, defaults string
		want          bool
	}{
		"another value":                       {"foo=bar:NoSchedule", "foo=baz:NoSchedule", true},
		"another value, all effects":          {"foo=bar", "foo=baz", true},
		"none of several values":              {"foo=bar:NoSchedule", "foo=a:NoSchedule foo=b:NoSchedule", true},
		"neither longer nor any value":        {"foo=bar:NoExecute@300", "foo:NoExecute@60", true},
		"one of several values":               {"foo=b:NoSchedule", "foo=a:NoSchedule foo=b:NoSchedule", false},
		"any value, a wider one":              {"foo:NoSchedule", "foo=baz:NoSchedule", false},
		"one value, a narrower one":           {"foo=bar:NoSchedule", "foo:NoSchedule", false},
		"longer":                              {"foo:NoExecute@300", "foo:NoExecute@60", false},
		"shorter":                             {"foo:NoExecute@60", "foo:NoExecute@300", false},
		"the same":                            {"foo=bar:NoSchedule", "foo=bar:NoSchedule", false},
		"another effect":                      {"foo=bar:NoSchedule", "foo=baz:NoExecute", false},
		"another key":                         {"foo=bar:NoSchedule", "faz=baz:NoSchedule", false},
		"no defaults":                         {"foo=bar:NoSchedule", "", false},
		"covered by one of another key, too":  {"foo=bar:NoSchedule", "foo=baz:NoSchedule *", false},
		"all keys, another effect of one key": {"*:NoSchedule", "foo=bar:NoExecute", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := conflicts(one(test.pod), read(test.defaults)); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

// The cases of TestVerifyAgainstWhitelist in
// k8s.io/kubernetes/pkg/util/tolerations/tolerations_test.go that have a whitelist.
func TestCovered(t *testing.T) {
	for name, test := range map[string]struct {
		pod, whitelist string
		want           bool
	}{
		"the same": {"foo=bar:NoSchedule foo=baz:NoSchedule", "foo=bar:NoSchedule foo=baz:NoSchedule",
			true},
		"duplicates": {"foo=bar:NoSchedule foo=bar:NoSchedule", "foo=bar:NoSchedule foo=baz:NoSchedule",
			true},
		"all":                       {"foo=bar:NoSchedule foo=bar:NoSchedule", "*", true},
		"duplicates of another":     {"foo=bar:NoSchedule foo=bar:NoSchedule", "foo=baz:NoSchedule", false},
		"one of two":                {"foo=bar:NoSchedule foo=baz:NoSchedule", "foo=baz:NoSchedule", false},
		"another value":             {"foo=bar:NoSchedule", "foo=baz:NoSchedule", false},
		"wider in effect":           {"foo=bar", "foo:NoSchedule", false},
		"nothing that needs be one": {"", "foo=bar", true},
	} {
		t.Run(name, func(t *testing.T) {
			whitelist := read(test.whitelist)
			got := !slices.ContainsFunc(read(test.pod),
				func(t corev1.Toleration) bool { return !isCovered(t, whitelist) })
			if got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

var annotationPath = field.NewPath("metadata", "annotations").Key(whitelistAnnotation)

func TestParse(t *testing.T) {
	const (
		at      = `metadata.annotations[scheduler.alpha.kubernetes.io/tolerationsWhitelist]`
		no      = "\x00"
		noList  = ": must be a list of tolerations in JSON: "
		needKey = `[0].operator: Invalid value: "": operator must be Exists when ` + "`key`" +
			` is empty, which means "match all values and all keys"`
	)
	for name, test := range map[string]struct {
		text string
		want string // tolerations
		err  string
	}{
		"nothing": {"", "", no},
		"null":    {"null", "", no},
		"empty":   {" [] ", "", no},
		"some": {`[{"key": "foo", "operator": "Equal", "value": "bar", "effect": "NoSchedule"}, ` +
			`{"operator": "Exists"}]`, "foo=bar:NoSchedule *", no},
		"seconds": {`[{"key": "foo", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}]`,
			"foo:NoExecute@60", no},
		"not JSON": {`foo`, "", `: Invalid value: "foo"` + noList +
			`invalid character 'o' in literal false (expecting 'a')`},
		"cut off": {`[{"key": "foo"`, "", `: Invalid value: "[{\"key\": \"foo\""` + noList +
			`unexpected end of JSON input`},
		"more than a list": {`[] []`, "", `: Invalid value: "[] []"` + noList +
			`invalid character '[' after top-level value`},
		"one, not a list": {`{"key": "foo"}`, "", `: Invalid value: "{\"key\": \"foo\"}"` + noList +
			`json: cannot unmarshal object into Go value of type []v1.Toleration`},
		"misspelt": {`[{"keys": "foo", "operator": "Exists"}]`, "",
			`: Invalid value: "[{\"keys\": \"foo\", \"operator\": \"Exists\"}]"` + noList + `unknown field "[0].keys"`},
		"in another case": {`[{"Key": "foo", "operator": "Exists"}]`, "",
			`: Invalid value: "[{\"Key\": \"foo\", \"operator\": \"Exists\"}]"` + noList + `unknown field "[0].Key"`},
		"twice": {`[{"key": "foo", "key": "bar"}]`, "",
			`: Invalid value: "[{\"key\": \"foo\", \"key\": \"bar\"}]"` + noList + `duplicate field "[0].key"`},
		"nothing in it": {`[{}]`, "", needKey},
		"null in it":    {`[null]`, "", needKey},
		"unknown operator": {`[{"key": "foo", "operator": "exists"}]`, "",
			`[0].operator: Unsupported value: "exists": supported values: "Equal", "Exists", "Lt", "Gt"`},
		"unknown effect": {`[{"key": "foo", "effect": "Never"}]`, "",
			`[0].effect: Unsupported value: "Never": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"`},
		"seconds of nothing": {`[{"key": "foo", "tolerationSeconds": 1}]`, "",
			`[0].effect: Invalid value: "": effect must be 'NoExecute' when ` + "`tolerationSeconds` is set"},
		"value of Exists": {`[{"key": "foo", "operator": "Exists", "value": "bar"}]`, "",
			`[0].operator: Invalid value: "bar": value must be empty when ` + "`operator` is 'Exists'"},
		"no number": {`[{"key": "foo", "operator": "Lt", "value": "bar"}]`, "",
			`[0].value: Invalid value: "bar": strconv.ParseInt: parsing "bar": invalid syntax`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parse(test.text, annotationPath)
			if test.err != no {
				if err == nil || err.Error() != at+test.err {
					t.Errorf("got  %v\nwant %s", err, at+test.err)
				}
				return
			}
			if err != nil || !apiequality.Semantic.DeepEqual(got, read(test.want)) {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
	for name, wrong := range map[string]string{
		"key": `[{"key": "-", "operator": "Exists"}]`, "value": `[{"key": "foo", "value": "/"}]`,
	} {
		if _, err := parse(wrong, annotationPath); err == nil ||
			!strings.Contains(err.Error(), "must consist of alphanumeric characters") &&
				!strings.Contains(err.Error(), "or consist of alphanumeric characters") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// Whatever an annotation says: it is an error that names it, or tolerations that can be written and
// read again, merged and compared.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "null", "[]", "[null]", "[{}]", "{}", "[", `[{"operator": "Exists"}]`, `[{"key": "a", "value": "b"}]`,
		`[{"key": "a", "operator": "Lt", "value": "-9223372036854775808"}]`,
		`[{"key": "a", "effect": "NoExecute", "tolerationSeconds": 9223372036854775807}]`,
		`[{"key": "a", "effect": "NoExecute", "tolerationSeconds": 1e400}]`,
		strings.Repeat("[", 20000), "\xff\xfe", `[{"key": "\ud800"}]`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		tolerations, err := parse(text, annotationPath)
		if err != nil {
			if !strings.Contains(err.Error(), annotationPath.String()) {
				t.Errorf("the error says not where: %v", err)
			}
			return
		}
		written, err := json.Marshal(tolerations)
		if err != nil {
			t.Fatal(err)
		}
		again, err := parse(string(written), annotationPath)
		if err != nil || !apiequality.Semantic.DeepEqual(again, tolerations) {
			t.Errorf("%q is %v, which reads %v, %v", text, tolerations, again, err)
		}
		merged := merge(nil, tolerations)
		for _, one := range tolerations {
			if !isCovered(one, merged) || conflicts(one, tolerations) {
				t.Errorf("%q: %v is lost or in conflict with itself", text, one)
			}
		}
	})
}

func TestConfiguration(t *testing.T) {
	const head = "apiVersion: podtolerationrestriction.admission.k8s.io/v1alpha1\nkind: Configuration\n"
	configs := map[string]string{"none": "", "empty": head, "null": head + "default: null\nwhitelist:\n"}
	for name, config := range configs {
		if got, err := load(strings.NewReader(config)); err != nil || len(got.Default)+len(got.Whitelist) != 0 {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
	// The valid cases of TestValidateConfiguration in
	// k8s.io/kubernetes/plugin/pkg/admission/podtolerationrestriction/apis/podtolerationrestriction/validation.
	own := "apiVersion: " + ownVersion + "\nkind: " + ownKind + "\n"
	for config, want := range map[string]conflictPolicy{
		"": rejectConflicts, head: rejectConflicts, own: rejectConflicts,
		own + "conflicts: Reject": rejectConflicts, own +
			"default: []\nwhitelist: []\nconflicts: Merge": mergeConflicts} {
		if got, err := load(strings.NewReader(config)); err != nil || got.Conflicts != want {
			t.Errorf("%q: got %v, %v", config, got.Conflicts, err)
		}
	}
	got, err := load(strings.NewReader(head + `
default:
- {key: foo, operator: Exists, value: "", effect: NoExecute, tolerationSeconds: 60}
- {key: foo, operator: Equal, value: bar, effect: NoExecute, tolerationSeconds: 60}
- {key: foo, operator: Equal, value: bar, effect: NoSchedule}
- {operator: Exists, effect: NoSchedule}
whitelist:
- {key: foo, value: bar, effect: NoSchedule}
- {key: foo, operator: Equal, value: bar}
`))
	if err != nil {
		t.Fatal(err)
	}
	if want := read(
		"foo:NoExecute@60 foo=bar:NoExecute@60 foo=bar:NoSchedule *:NoSchedule"); !apiequality.Semantic.DeepEqual(
		got.Default, want) {
		t.Errorf("default: got %v", got.Default)
	}
	if want := read("foo=bar:NoSchedule foo=bar"); len(got.Whitelist) != 2 ||
		!tolerations.Covers(got.Whitelist[0], want[0]) || !tolerations.Covers(got.Whitelist[1], want[1]) {
		t.Errorf("whitelist: got %v", got.Whitelist)
	}

	for name, test := range map[string]struct{ config, want string }{
		"another kind": {"kind: Pod",
			`is kind "Pod" in apiVersion "", must be kind Configuration in ` +
				`apiVersion podtolerationrestriction.admission.k8s.io/v1alpha1`},
		"the own kind without its version": {"kind: PodTolerationRestrictionConfiguration",
			`is kind "PodTolerationRestrictionConfiguration" in apiVersion "", must be kind ` +
				`PodTolerationRestrictionConfiguration in apiVersion gatehouse.dev/v1alpha1`},
		"what Kubernetes' format hasn't": {head + "conflicts: Merge", `unknown field "conflicts"`},
		"another policy": {own + "conflicts: Ignore",
			`conflicts: Unsupported value: "Ignore": supported values: "Merge", "Reject"`},
		"unknown field": {head + "defaults: []", `unknown field "defaults", did you mean "default"?`},
		"of a toleration": {head + "whitelist: [{keys: foo, operator: Exists}]",
			`unknown field "whitelist[0].keys", did you mean "key"?`},
		"value of Exists": {head + "whitelist: [{key: foo, operator: Exists, value: bar, effect: NoSchedule}]",
			`whitelist[0].operator: Invalid value: "bar": value must be empty when ` + "`operator` is 'Exists'"},
		"no key and a value": {head + "default: [{operator: Equal, value: bar, effect: NoSchedule}]",
			`default[0].operator: Invalid value: "Equal": operator must be Exists when ` + "`key`" +
				` is empty, which means "match all values and all keys"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(strings.NewReader(test.config))
			if want := "the configuration of PodTolerationRestriction: " + test.want; err == nil ||
				err.Error() != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		})
	}
}
