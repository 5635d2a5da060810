package decision

import (
	"bytes"
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"gatehouse.dev/apis/decisions/v1alpha1"
)

// secrets knows what of a resource's objects nobody may see who may see decisions: values of
// Secrets, tokens, and whatever is called as credentials are.
type secrets struct{ resource schema.GroupResource }

// HiddenValue takes the place of a value that is secret.
const HiddenValue = "(changed; the value is not shown)"

var hiddenJSON, _ = json.Marshal(HiddenValue)

// harmless are fields that are called as if they held a credential, and name or describe one.
var harmless = map[string]bool{
	"automountServiceAccountToken": true, "serviceAccountToken": true, "imagePullSecrets": true, "secret": true,
	"secrets": true, "boundServiceAccountToken": true,
}

// What is called so has the whole object as it was sent.
const (
	lastApplied       = "kubectl.kubernetes.io/last-applied-configuration"
	lastAppliedInPath = "kubectl.kubernetes.io~1last-applied-configuration"
)

// hides tells whether what has that name is a secret, or belongs to something that has the text for
// a name and is one.
func hides[T ~string | ~[]byte](name, text T) bool {
	return isCredential(name) || string(name) == lastApplied || string(name) == "name" && isCredential(text)
}

// ofPatch takes the secrets out of the values of a patch.
func (s secrets) ofPatch(patch []v1alpha1.PatchOperation) []v1alpha1.PatchOperation {
	for i := range patch {
		if o := &patch[i]; o.Value != nil {
			o.Value.Raw = s.hidden(o.Path, o.Value.Raw)
		}
	}
	return patch
}

// hidden is the value at a path, without the secrets in it; the same slice where there are none.
func (s secrets) hidden(path string, raw []byte) []byte {
	if s.holds(path) {
		return hiddenJSON
	}
	if !mayHide(raw) && !s.above(path) {
		return raw
	}
	return s.cleaned(path, raw)
}

// cleaned is hidden for a value that may have a secret in it.
func (s secrets) cleaned(path string, raw []byte) []byte {
	var value any
	if json.Unmarshal(raw, &value) != nil {
		return raw
	}
	cleaned, any := s.clean(path, value)
	if !any {
		return raw
	}
	if shown, err := json.Marshal(cleaned); err == nil {
		return shown
	}
	return raw
}

// mayHide tells whether there may be a name in the JSON that a credential has: of a field, or as
// the name of an environment variable. Most values have none, and needn't be decoded to be sure of
// that.
func mayHide(raw []byte) bool {
	if len(raw) == 0 || raw[0] != '{' && raw[0] != '[' {
		return false
	}
	var field []byte // whose value comes next
	for {
		start := bytes.IndexByte(raw, '"')
		if start < 0 {
			return false
		}
		raw = raw[start+1:]
		end := bytes.IndexByte(raw, '"')
		if end < 0 || bytes.IndexByte(raw[:end], '\\') >= 0 {
			return true // whatever it says
		}
		text := raw[:end]
		raw = raw[end+1:]
		for len(raw) > 0 && (raw[0] == ' ' || raw[0] == '\t' || raw[0] == '\r' || raw[0] == '\n') {
			raw = raw[1:]
		}
		switch {
		case len(raw) > 0 && raw[0] == ':':
			if field = text; hides(text, nil) {
				return true
			}
		case hides(field, text):
			return true
		}
	}
}

// holds tells whether what is at a path is secret, whatever it is.
func (s secrets) holds(path string) bool {
	return s.named(path) || strings.HasSuffix(path, "/value") && strings.Contains(path,
		"/env/") // of a name unknown here
}

// named tells whether the names on the way to it say so.
func (s secrets) named(path string) bool {
	depth, parent := 0, ""
	for rest := strings.TrimPrefix(path, "/"); rest != ""; depth++ {
		var segment string // as it is in a path, which is all the same to the names of credentials
		segment, rest, _ = strings.Cut(rest, "/")
		switch {
		case s.isSecret() && depth == 1 && (parent == "data" || parent == "stringData"), segment == lastAppliedInPath:
			return true
		case isCredential(segment) && !names[parent]:
			return true
		}
		parent = segment
	}
	return false
}

// names are the fields whose keys are names that mean nothing.
var names = map[string]bool{"labels": true, "finalizers": true, "matchLabels": true, "nodeSelector": true,
	"selector": true}

// above tells whether there may be something secret in what is at a path.
func (s secrets) above(path string) bool {
	return s.isSecret() && strings.Count(path, "/") < 2
}

func (s secrets) isSecret() bool { return s.resource == schema.GroupResource{Resource: "secrets"} }

// clean returns a value with its secrets hidden, and whether there were any.
func (s secrets) clean(path string, value any) (any, bool) {
	found := false
	switch value := value.(type) {
	case map[string]any:
		variable, _ := value["name"].(string)
		for key, field := range value {
			at := path + "/" + escape(key)
			if s.named(at) || key == "value" && isCredential(variable) {
				value[key], found = HiddenValue, true
				continue
			}
			cleaned, any := s.clean(at, field)
			value[key], found = cleaned, found || any
		}
	case []any:
		for i := range value {
			cleaned, any := s.clean(path+"/-", value[i])
			value[i], found = cleaned, found || any
		}
	}
	return value, found
}

// credentials are what fields, keys and environment variables are called that hold one, at the end
// of their names. Those of keys may have a separator in it.
var (
	credentials = []string{"password", "passwd", "passphrase", "secret", "token", "credential"}
	keys        = []string{"api", "private", "access", "secret"}
)

// lastLetters are those of all these names, which most others don't have.
var lastLetters = func() (letters [256]bool) {
	for _, word := range append([]string{"key"}, credentials...) {
		letters[word[len(word)-1]] = true
	}
	return letters
}()

// isCredential tells whether a name says that a credential is what it names.
func isCredential[T ~string | ~[]byte](name T) bool {
	singular := name
	for _, s := range "sS" {
		if n := len(singular); n > 0 && singular[n-1] == byte(s) {
			singular = singular[:n-1]
		}
	}
	if n := len(singular); n == 0 || !lastLetters[singular[n-1]|0x20] {
		return false
	}
	for _, word := range credentials {
		if hasSuffix(singular, word) {
			return !harmless[string(name)]
		}
	}
	if !hasSuffix(singular, "key") {
		return false
	}
	of := strings.TrimRight(string(singular[:len(singular)-len("key")]), "-_. ")
	for _, word := range keys {
		if hasSuffix(of, word) {
			return true
		}
	}
	return false
}

// hasSuffix tells whether a text ends with a word in small letters, in letters of any size. Most
// don't, which their last letter tells.
func hasSuffix[T ~string | ~[]byte](text T, word string) bool {
	n := len(text) - len(word)
	return n >= 0 && text[len(text)-1]|0x20 == word[len(word)-1] && strings.EqualFold(string(text[n:]), word)
}

var escaper = strings.NewReplacer("~", "~0", "/", "~1")

func escape(segment string) string { return escaper.Replace(segment) }
