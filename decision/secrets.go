package decision

import (
	"encoding/json"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"gatehouse.dev/apis/decisions/v1alpha1"
)

// secrets knows what of a resource's objects nobody may see who may see decisions: values of
// Secrets, tokens, and whatever is called as credentials are.
type secrets struct {
	resource    schema.GroupResource
	subresource string
}

// hiddenValue takes the place of a value that is secret.
const hiddenValue = "(changed; the value is not shown)"

var hiddenJSON, _ = json.Marshal(hiddenValue)

// credential is how fields, keys and environment variables are called that hold one.
var credential = regexp.MustCompile(
	`(?i)(passw(or)?d|passphrase|secret|token|credential|api[-_]?key|private[-_]?key|access[-_]?key)s?$`)

// harmless are fields that are called as if they held a credential, and name or describe one.
var harmless = map[string]bool{
	"automountServiceAccountToken": true, "serviceAccountToken": true, "imagePullSecrets": true, "secret": true,
	"secrets": true, "boundServiceAccountToken": true,
}

// hidden are operations without the secrets in their values.
func (s secrets) hidden(operations []v1alpha1.PatchOperation) []v1alpha1.PatchOperation {
	for i := range operations {
		o := &operations[i]
		if o.Value == nil {
			continue
		}
		if s.holds(o.Path) {
			o.Value = &v1alpha1.Value{Raw: hiddenJSON}
			continue
		}
		var value any
		if !mayHide(o.Value.Raw) && !s.above(o.Path) || json.Unmarshal(o.Value.Raw, &value) != nil {
			continue
		}
		cleaned, any := s.clean(o.Path, value)
		if !any {
			continue
		}
		if raw, err := json.Marshal(cleaned); err == nil {
			o.Value = &v1alpha1.Value{Raw: raw}
		}
	}
	return operations
}

// mayHide tells whether there may be a name in the JSON that a credential has. Most values are a
// word or a number.
func mayHide(raw []byte) bool {
	return len(raw) > 0 && (raw[0] == '{' || raw[0] == '[')
}

// holds tells whether what is at a path is secret, whatever it is.
func (s secrets) holds(path string) bool {
	segments := strings.Split(path, "/")[1:]
	if len(segments) == 0 {
		return false
	}
	last := unescape(segments[len(segments)-1])
	parent := ""
	if len(segments) > 1 {
		parent = segments[len(segments)-2]
	}
	switch {
	case s.isSecret() && len(segments) == 2 && (parent == "data" || parent == "stringData"):
		return true
	case s.isSecret() && last == "kubectl.kubernetes.io/last-applied-configuration":
		return true
	case s.isTokenRequest() && path == "/status/token", s.isTokenReview() && path == "/spec/token":
		return true
	case last == "value" && len(segments) > 2 && segments[len(segments)-3] == "env":
		return true // the variable's name isn't known here
	case parent == "labels" || parent == "finalizers":
		return false
	}
	return isCredential(last)
}

// above tells whether there may be something secret in what is at a path.
func (s secrets) above(path string) bool {
	return (s.isSecret() || s.isTokenRequest() || s.isTokenReview()) && strings.Count(path, "/") < 2
}

func (s secrets) isSecret() bool { return s.resource == schema.GroupResource{Resource: "secrets"} }

func (s secrets) isTokenRequest() bool {
	return s.resource == schema.GroupResource{Resource: "serviceaccounts"} && s.subresource == "token"
}

func (s secrets) isTokenReview() bool {
	return s.resource == schema.GroupResource{Group: "authentication.k8s.io", Resource: "tokenreviews"}
}

// clean returns a value with its secrets hidden, and whether there were any. Objects, lists and
// texts are cleaned; a number is no secret.
func (s secrets) clean(path string, value any) (any, bool) {
	found := false
	switch value := value.(type) {
	case map[string]any:
		variable, _ := value["name"].(string)
		for key, field := range value {
			at := path + "/" + escape(key)
			_, isText := field.(string)
			if isText && (s.holds(at) && key != "value" || key == "value" && isCredential(variable)) {
				value[key], found = hiddenValue, true
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

func isCredential(name string) bool { return !harmless[name] && credential.MatchString(name) }

var (
	escaper   = strings.NewReplacer("~", "~0", "/", "~1")
	unescaper = strings.NewReplacer("~1", "/", "~0", "~")
)

func escape(segment string) string   { return escaper.Replace(segment) }
func unescape(segment string) string { return unescaper.Replace(segment) }
