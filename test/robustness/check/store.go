// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"encoding/json"
	"slices"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
)

// store is etcd's history by key.
type store struct {
	versions map[string][]version
	// values are the revisions at which the ConfigMaps of Registers got their values.
	values map[string]int64
	// names are the keys of the ConfigMaps of Registers.
	names []string
	last  int64
}

// version is a state of a key, from its revision on.
type version struct {
	revision, seen int64
	// object is nil if the key was deleted.
	object runtime.Object
	value  string
	// ended is what endedKey holds.
	ended []types.UID
}

const keyPrefix = "/registry/"

// endedKey has the UIDs of the pods of Quotas that are stored and no longer counted.
const endedKey = keyPrefix + "gatehouse.dev/ended/" + Quotas

func registerKey(name string) string { return keyPrefix + "configmaps/" + Registers + "/" + name }

// newStore decodes the objects that the checks read. It fails the check "revisions" if the record
// lacks a revision.
func newStore(h *History, r *Report) *store {
	s := &store{versions: map[string][]version{}, values: map[string]int64{}}
	for _, revision := range h.Revisions {
		r.count("revisions")
		if s.last != 0 && revision.Revision != s.last+1 {
			r.fail("revisions", "etcd's history goes from revision %d to %d", s.last, revision.Revision)
		}
		s.last = revision.Revision
		for _, event := range revision.Events {
			if !isChecked(event.Key) {
				continue
			}
			v := version{revision: revision.Revision, seen: revision.Seen}
			if event.Key == endedKey {
				if err := json.Unmarshal(event.Value, &v.ended); err != nil {
					r.fail("revisions", "revision %d: %s: %v", revision.Revision, event.Key, err)
				}
			} else if !event.Deleted {
				object, err := runtime.Decode(scheme.Codecs.UniversalDeserializer(), event.Value)
				if err != nil {
					r.fail("revisions", "revision %d: %s: %v", revision.Revision, event.Key, err)
					continue
				}
				v.object = object
				if m, ok := object.(*corev1.ConfigMap); ok && m.Namespace == Registers {
					v.value = m.Data["value"]
					s.put(v, r)
				}
			}
			if len(s.versions[event.Key]) == 0 && strings.HasPrefix(event.Key, registerKey("")) {
				s.names = append(s.names, strings.TrimPrefix(event.Key, registerKey("")))
			}
			s.versions[event.Key] = append(s.versions[event.Key], v)
		}
	}
	return s
}

// put records when a value was stored.
func (s *store) put(v version, r *Report) {
	if v.value == "" {
		return // not a client's
	}
	if other := s.values[v.value]; other != 0 {
		r.fail("writes", "the value %s was stored twice, at revisions %d and %d", v.value, other, v.revision)
	}
	s.values[v.value] = v.revision
}

func isChecked(key string) bool {
	for _, prefix := range []string{registerKey(""), leaseKey, endedKey, keyPrefix + "configmaps/" + Quotas + "/",
		keyPrefix + "pods/" + Quotas + "/", keyPrefix + "resourcequotas/" + Quotas + "/"} {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}

// at returns the state of a key at a revision.
func (s *store) at(key string, revision int64) version {
	all := s.versions[key]
	i := sort.Search(len(all), func(i int) bool { return all[i].revision > revision })
	if i == 0 {
		return version{}
	}
	return all[i-1]
}

// changed returns the version that a revision made of a key, if it did.
func (s *store) changed(key string, revision int64) (version, bool) {
	all := s.versions[key]
	i, found := slices.BinarySearchFunc(all, revision, func(v version, r int64) int { return int(v.revision - r) })
	if !found {
		return version{}, false
	}
	return all[i], true
}
