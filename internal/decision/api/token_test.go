// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/decision"
)

// A shelf is a server's list of decisions. The revision of each is its index plus one.
type shelf []time.Duration

// page answers as a store does.
func (s shelf) page(t *testing.T, limit int64, token string) *v1alpha1.DecisionList {
	t.Helper()
	after := 0
	if token != "" {
		if _, err := fmt.Sscanf(token, "100.%d", &after); err != nil {
			t.Fatalf("token %q: %v", token, err)
		}
	}
	list := &v1alpha1.DecisionList{ListMeta: metav1.ListMeta{ResourceVersion: "100"}}
	for i := after; i < len(s); i++ {
		if limit > 0 && int64(len(list.Items)) == limit {
			list.Continue = decision.ContinueToken("100", fmt.Sprint(i))
			break
		}
		d := v1alpha1.Decision{Time: metav1.NewMicroTime(time.Unix(0, 0).Add(s[i]))}
		d.ResourceVersion = fmt.Sprint(i + 1)
		list.Items = append(list.Items, d)
	}
	return list
}

// Pages of several servers' lists have all decisions once, each server's in its order, and by time if
// the servers' lists are in order.
func TestMerge(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 200 {
		shelves := map[string]shelf{}
		total := 0
		for i := range 1 + random.IntN(4) {
			s := make(shelf, random.IntN(8))
			for j := range s {
				s[j] = time.Duration(random.IntN(20)) * time.Second
			}
			slices.Sort(s)
			shelves[fmt.Sprint("s", i)] = s
			total += len(s)
		}
		limit := int64(random.IntN(6))
		var got []v1alpha1.Decision
		from := tokens{}
		for first := true; first || len(from) > 0; first = false {
			var parts []*part
			for name, s := range shelves {
				if first || from[name] != "" {
					parts = append(parts, &part{server: name, began: from[name], list: s.page(t, limit, from[name])})
				}
			}
			items, more := merge(parts, limit)
			if limit > 0 && int64(len(items)) > limit || len(more) > 0 && int64(len(items)) != limit {
				t.Fatalf("round %d: a page of %d with %v to come, want %d", round, len(items), more, limit)
			}
			got, from = append(got, items...), more
		}
		byTime := func(a, b v1alpha1.Decision) int { return a.Time.Compare(b.Time.Time) }
		if len(got) != total || !slices.IsSortedFunc(got, byTime) {
			t.Fatalf("round %d: %d decisions of %d, or not in order: %v", round, len(got), total, got)
		}
		seen := map[string]bool{}
		for _, d := range got {
			if server, _, ok := strings.Cut(d.ResourceVersion, "="); !ok || shelves[server] == nil || seen[d.ResourceVersion] {
				t.Fatalf("round %d: %s comes twice, or of nobody", round, d.ResourceVersion)
			}
			seen[d.ResourceVersion] = true
		}
	}
}

func TestRevisions(t *testing.T) {
	for text, want := range map[string]string{"": "", "0": "", "17": "own=17", "own=17": "own=17", "b=2,a=1": "a=1,b=2"} {
		if got, err := parseRevision(text, "own"); err != nil || got.String() != want {
			t.Errorf("%q is %q, %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"a=", "=1", "a=1,", "a=1,b"} {
		if got, err := parseRevision(text, "own"); !apierrors.IsBadRequest(err) {
			t.Errorf("%q is %q, %v", text, got, err)
		}
		if _, _, err := parseContinue("a=1/" + text); !apierrors.IsBadRequest(err) {
			t.Errorf("the token %q: %v", "a=1/"+text, err)
		}
	}
	if revisions, more, err := parseContinue("a=1,b=2/b=2.7"); err != nil || revisions["a"] != "1" || more["b"] != "2.7" {
		t.Errorf("the token is %v, %v, %v", revisions, more, err)
	}
}
