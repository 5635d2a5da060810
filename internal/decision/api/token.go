// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/decision"
)

// tokens are what servers call a revision, or a place in a list, by the servers' names. The
// resourceVersion of a list of several servers has the revision of each. Only the server that wrote a
// token knows what it means.
type tokens map[string]string

// String returns server=token,server=token.
func (t tokens) String() string {
	parts := make([]string, 0, len(t))
	for _, server := range slices.Sorted(maps.Keys(t)) {
		parts = append(parts, server+"="+t[server])
	}
	return strings.Join(parts, ",")
}

// parseTokens returns the tokens of a text that String returned.
func parseTokens(text string) (tokens, bool) {
	t := tokens{}
	for part := range strings.SplitSeq(text, ",") {
		server, token, ok := strings.Cut(part, "=")
		if !ok || server == "" || token == "" {
			return nil, false
		}
		t[server] = token
	}
	return t, true
}

// parseRevision returns the revisions of a resourceVersion. A number, as of the time before the server
// had others, is the revision of this server.
func parseRevision(text, own string) (tokens, error) {
	if text == "" || text == "0" {
		return tokens{}, nil
	}
	if !strings.Contains(text, "=") {
		return tokens{own: text}, nil
	}
	if t, ok := parseTokens(text); ok {
		return t, nil
	}
	return nil, apierrors.NewBadRequest(fmt.Sprintf("resourceVersion: invalid value %q", text))
}

// parseContinue returns the revisions of the list that a token of a page continues, and the tokens of
// the servers that have more.
func parseContinue(text string) (revisions, more tokens, err error) {
	first, second, _ := strings.Cut(text, "/")
	revisions, ok := parseTokens(first)
	more, okToo := parseTokens(second)
	if !ok || !okToo {
		return nil, nil, apierrors.NewBadRequest(fmt.Sprintf("continue: invalid value %q", text))
	}
	return revisions, more, nil
}

// A part is the page of a list that one server answered. Decisions are taken from it in its order.
type part struct {
	server string
	began  string // the token with which the server was asked, empty for the list's beginning
	list   *v1alpha1.DecisionList
	taken  int
}

// next returns the token of the server's decisions that weren't taken, empty if there are none.
func (p *part) next() string {
	switch {
	case p.taken == len(p.list.Items):
		return p.list.Continue
	case p.taken > 0:
		return decision.ContinueToken(p.list.ResourceVersion, p.list.Items[p.taken-1].ResourceVersion)
	case p.began != "":
		return p.began
	}
	return decision.ContinueToken(p.list.ResourceVersion, "0")
}

// merge returns a page of at most limit decisions of the parts, or all if limit is 0, the newest last,
// and the tokens of the servers that have more. Each part has as many decisions, or has no more.
func merge(parts []*part, limit int64) (items []v1alpha1.Decision, more tokens) {
	items, more = []v1alpha1.Decision{}, tokens{}
	for limit == 0 || int64(len(items)) < limit {
		var oldest *part
		for _, p := range parts {
			if p.taken < len(p.list.Items) &&
				(oldest == nil || p.list.Items[p.taken].Time.Before(&oldest.list.Items[oldest.taken].Time)) {
				oldest = p
			}
		}
		if oldest == nil {
			break
		}
		item := oldest.list.Items[oldest.taken]
		items = append(items, *stamped(&item, oldest.server))
		oldest.taken++
	}
	for _, p := range parts {
		if next := p.next(); next != "" {
			more[p.server] = next
		}
	}
	return items, more
}
