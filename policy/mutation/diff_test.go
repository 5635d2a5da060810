package mutation

import (
	"testing"
)

func TestDiff(t *testing.T) {
	for name, test := range map[string]struct{ before, after, want string }{
		"nothing": {"{a: {b: [1]}}", "{a: {b: [1]}}", ""},
		"a key": {"{a: {b: c}}", "{a: {b: c, k8s.io/x~w: d}}",
			`[{"op":"add","path":"/a/k8s.io~1x~0w","value":"d"}]`},
		"a value":    {"{a: {b: c}}", "{a: {b: d}}", `[{"op":"replace","path":"/a/b","value":"d"}]`},
		"a list":     {"{a: [1, 2]}", "{a: [1, 3]}", `[{"op":"replace","path":"/a","value":[1,3]}]`},
		"what went":  {"{a: 1, b: 2}", "{b: 2}", `[{"op":"remove","path":"/a"}]`},
		"false, and": {"{a: true}", "{a: false}", `[{"op":"replace","path":"/a","value":false}]`},
		"null":       {"{a: 1}", "{a: null}", `[{"op":"replace","path":"/a","value":null}]`},
		"another type": {"{a: {b: 1}, c: 1}", "{a: [1], c: {}}", `[{"op":"replace","path":"/a","value":[1]},` +
			`{"op":"replace","path":"/c","value":{}}]`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Diff(configuration(t, test.before), configuration(t, test.after))
			if err != nil || string(got) != test.want {
				t.Errorf("%v; got %s\nwant %s", err, got, test.want)
			}
		})
	}
}
