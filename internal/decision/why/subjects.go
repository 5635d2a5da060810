// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"gatehouse.dev/apis/decisions/v1alpha1"
)

// subjects are the fields that refusals are about whose messages don't name a field by its path.
var subjects = []struct {
	// says matches the message. Groups of it stand for $1 and so on in fields and value.
	says *regexp.Regexp
	// fields matches the paths of the fields.
	fields string
	// value is the value that a field must have, empty for any.
	value string
}{
	// ServiceAccount
	{says: pattern(`a mirror pod may not reference secrets`),
		fields: `^spec\.imagePullSecrets\[|\.(?:secret|secretName|secretKeyRef|secretRef)\b`},
	{says: pattern(`a mirror pod may not reference service accounts`), fields: `^spec\.serviceAccount(?:Name)?$`},
	{says: pattern(`a mirror pod may not use ServiceAccountToken`), fields: `\.serviceAccountToken\b`},
	{says: pattern(`a mirror pod may not reference configmaps`), fields: `\.(?:configMap|configMapKeyRef|configMapRef)\b`},
	{says: pattern(`a mirror pod may not reference persistentvolumeclaims`), fields: `\.persistentVolumeClaim\b`},
	{says: pattern(`a mirror pod may not reference resourceclaims`), fields: `^spec\.resourceClaims\b`},
	{says: pattern(`error looking up service account`), fields: `^spec\.serviceAccountName$`},
	{says: pattern(`[vV]olume with \S+="([^"]+)" is not allowed because`), fields: `\.secretName$`, value: "$1"},
	{says: pattern(`imagePullSecrets\[(\d+)\]\.name=`), fields: `^spec\.imagePullSecrets\[$1\]`},
	{says: pattern(`referencing secret\.secretName="([^"]+)"`), fields: `\.(?:secretKeyRef|secretRef)\.name$`, value: "$1"},
	// PodSecurity
	{says: pattern(`must not set runAsUser=0`), fields: `\.securityContext\.runAsUser$`, value: "0"},
	{says: pattern(`uses? hostPorts?`), fields: `\.hostPort$`},
	{says: pattern(`securityContext\.capabilities\.add`), fields: `\.capabilities\.add\b`},
	{says: pattern(`must not set securityContext\.procMount`), fields: `\.procMount$`},
	{says: pattern(`forbidden securityContext\.seLinuxOptions`), fields: `\.seLinuxOptions\b`},
	{says: pattern(`must not set securityContext\.seccompProfile\.type`), fields: `\.seccompProfile\.type$`},
	{says: pattern(`must not set AppArmor profile`), fields: `\.appArmorProfile\.type$|container\.apparmor\.`},
	{says: pattern(`forbidden sysctls`), fields: `^spec\.securityContext\.sysctls\b`},
	// Others
	{says: pattern(`value of priority \(`), fields: `^spec\.(?:priority|priorityClassName)$`},
	{says: pattern(`value of PreemptionPolicy \(`), fields: `^spec\.(?:preemptionPolicy|priorityClassName)$`},
	{says: pattern(`no PriorityClass with name `), fields: `^spec\.priorityClassName$`},
	{says: pattern(`Pod(?:'s)? Overhead `), fields: `^spec\.(?:overhead\b|runtimeClassName$)`},
	{says: pattern(`RuntimeClass "[^"]+" not found|runtimeClass\.scheduling\.nodeSelector`),
		fields: `^spec\.(?:runtimeClassName$|nodeSelector\b)`},
	{says: pattern(`pod node label selector `), fields: `^spec\.nodeSelector\b`},
	{says: pattern(`affinity\.PodAntiAffinity\.Required`), fields: `^spec\.affinity\.podAntiAffinity\b`},
	{says: pattern(`Use of external IPs is denied`), fields: `^spec\.externalIPs\b`},
	{says: pattern(`cannot set (?:an ownerRef|blockOwnerDeletion) `), fields: `^metadata\.ownerReferences\b`},
	// LimitRanger: of a container, or of the sum of all
	{says: pattern(`(?:minimum|maximum) (\S+) usage per Container is \S+, but (request|limit) is (\S+?)[,.\]]*(?:\s|$)`),
		fields: `^spec\.\w*ontainers\[\d+\]\.resources\.$2s[.\[]$1\]?$`, value: "$3"},
	{says: pattern(`(?:minimum|maximum) (\S+) usage per Pod is \S+, but (request|limit) is`),
		fields: `^spec\.(?:\w*ontainers\[\d+\]\.)?resources\.$2s[.\[]$1\]?$`},
	{says: pattern(`(\S+) max limit to request ratio per (?:Container|Pod) is`),
		fields: `^spec\.(?:\w*ontainers\[\d+\]\.)?resources\.(?:request|limit)s[.\[]$1\]?$`},
	{says: pattern(`(?:minimum|maximum) storage usage per PersistentVolumeClaim is`),
		fields: `^spec\.resources\.requests\.storage$`},
	// ResourceQuota: the scopes that a quota has
	{says: pattern(`\{PriorityClass `), fields: `^spec\.priorityClassName$`},
	{says: pattern(`\{(?:Not)?Terminating `), fields: `^spec\.activeDeadlineSeconds$`},
	{says: pattern(`\{CrossNamespacePodAffinity `), fields: `^spec\.affinity\b`},
	{says: pattern(`\{VolumeAttributesClass `), fields: `^spec\.volumeAttributesClassName$`},
}

var (
	exceeded = pattern(`exceeded quota: \S+, requested: (\S+), used: `)
	unstated = pattern(`(?:must specify|;) \S+ for: ([a-z0-9,-]+)`)
)

// A subject is a set of fields that a refusal is about.
type subject struct {
	fields *regexp.Regexp
	value  string // that the fields have, empty for any
	// instead matches the fields that count in an added element that has none of the fields, nil for none: limits are
	// requests where no requests are.
	instead *regexp.Regexp
}

// subjectsOf returns the fields that a message is about.
func subjectsOf(message string) []subject {
	var all []subject
	for i := range subjects {
		s := &subjects[i]
		for _, match := range s.says.FindAllStringSubmatchIndex(message, -1) {
			groups := s.says.FindStringSubmatch(message[match[0]:match[1]])
			fields := s.fields
			for n, group := range groups[1:] {
				fields = strings.ReplaceAll(fields, "$"+strconv.Itoa(n+1), regexp.QuoteMeta(group))
			}
			all = append(all, subject{fields: regexp.MustCompile(fields),
				value: string(s.says.ExpandString(nil, s.value, message, match))})
		}
	}
	for _, m := range exceeded.FindAllStringSubmatch(message, -1) {
		for pair := range strings.SplitSeq(m[1], ",") {
			name, _, _ := strings.Cut(pair, "=")
			if s, ok := countedBy(name); ok {
				all = append(all, s)
			}
		}
	}
	return all
}

// countedBy returns the fields that a quota counts for a resource. ok is false if it counts objects.
func countedBy(name string) (s subject, ok bool) {
	counted := func(kind, name string) *regexp.Regexp {
		key := `[.\[]` + regexp.QuoteMeta(name) + `\]?$`
		return pattern(`^spec\.(?:\w*ontainers\[\d+\]\.)?resources\.` + kind + key + `|^spec\.overhead` + key)
	}
	switch {
	case strings.Contains(name, ".storageclass.storage.k8s.io/"):
		return subject{fields: pattern(`^spec\.(?:storageClassName|resources\.requests\.storage)$`)}, true
	case strings.HasPrefix(name, "services."):
		return subject{fields: pattern(`^spec\.(?:type|ports\[\d+\]\.nodePort|allocateLoadBalancerNodePorts)$`)}, true
	case strings.HasPrefix(name, "limits."):
		return subject{fields: counted("limits", name[len("limits."):])}, true
	}
	amount, isRequest := strings.CutPrefix(name, "requests.")
	if !isRequest && name != "cpu" && name != "memory" && name != "ephemeral-storage" && !strings.HasPrefix(name, "hugepages-") {
		return subject{}, false
	}
	return subject{fields: counted("requests", amount), instead: counted("limits", amount)}, true
}

// concerns returns the fields in the change that the refusal is about.
func (s *subject) concerns(c *Change) []part {
	find := func(fields *regexp.Regexp) (found []part) {
		for _, leaf := range c.leaves() {
			if fields.MatchString(leaf.path) && (s.value == "" || sameValue(inline(leaf.value, 0), s.value)) {
				found = append(found, leaf)
			}
		}
		return found
	}
	found := find(s.fields)
	if len(found) == 0 && s.instead != nil && c.Added && c.Name != "" {
		found = find(s.instead)
	}
	return found
}

// sameValue reports whether two texts are the same value, such as the quantities 1Gi and 1024Mi.
func sameValue(a, b string) bool {
	if a == b {
		return true
	}
	x, errX := resource.ParseQuantity(a)
	y, errY := resource.ParseQuantity(b)
	return errX == nil && errY == nil && x.Cmp(y) == 0
}

// leaves returns the values in the change that have no parts, with the paths of their fields.
func (c *Change) leaves() []part { return leavesOf(c.Field, c.value) }

func leavesOf(path string, value any) []part {
	var all []part
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			all = append(all, leavesOf(path+fieldIn(path, key), value[key])...)
		}
	case []any:
		for i := range value {
			all = append(all, leavesOf(path+"["+strconv.Itoa(i)+"]", value[i])...)
		}
	default:
		all = []part{{path, value}}
	}
	return all
}

// unstatedIn returns the containers that a quota's message names because they don't state what it counts.
func unstatedIn(message string) []podElement {
	var all []podElement
	for _, m := range unstated.FindAllStringSubmatch(message, -1) {
		for name := range strings.SplitSeq(m[1], ",") {
			all = append(all, podElement{"container", name})
		}
	}
	return all
}

// tooLarge matches the messages about an object that is larger than the API or etcd takes.
var tooLarge = pattern(`etcdserver: request is too large|trying to send message larger than max|Request entity too large` +
	`|Too long: may not be more than \d+ bytes`)

// isCut reports whether a patch is too large to be kept whole.
func isCut(d *v1alpha1.Decision, c *Change) bool {
	for i := range d.Steps {
		s := &d.Steps[i]
		if s.Plugin == c.Plugin && s.PatchCut {
			return c.Call == nil || c.Call.PatchCut
		}
	}
	return false
}
