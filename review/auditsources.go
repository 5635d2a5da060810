// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"context"
	"errors"
	"iter"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"gatehouse.dev/internal/count"
	"gatehouse.dev/internal/review/impact"
	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/internal/review/live"
)

// errEnough ends a source whose objects aren't wanted any more.
var errEnough = errors.New("enough")

// objects returns the objects that are to be judged: those on which the candidate may act. It makes sure that
// the namespace of each is there.
func (a *auditing) objects(ctx context.Context) iter.Seq2[existing, error] {
	return func(yield func(existing, error) bool) {
		tell := func(e existing) error {
			ok, err := a.prepare(ctx, &e)
			if err != nil {
				return err
			}
			if ok && !yield(e, nil) {
				return errEnough
			}
			return nil
		}
		read := a.fromCluster
		if a.asked.Files != nil {
			read = a.fromFiles
		}
		if err := read(ctx, tell); err != nil && !errors.Is(err, errEnough) {
			yield(existing{}, err)
		}
	}
}

// prepare makes an object ready to be judged. It returns false if the candidate can't act on it.
func (a *auditing) prepare(ctx context.Context, e *existing) (ok bool, err error) {
	a.read++
	resource, mapping := a.candidate.reviewer.resourceOf(e.Object)
	namespace := e.Object.GetNamespace()
	if mapping != nil && mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		namespace = a.candidate.reviewer.namespaceOf(e.Object)
		e.Object.SetNamespace(namespace)
	}
	a.seen[namespace] = true
	if !a.within.in(namespace).has(resource.GroupResource()) {
		return false, nil
	}
	e.owner = a.owners.topmost(e.Object)
	e.unlabelled, err = a.known.prepare(ctx, namespace)
	return true, err
}

// fromFiles tells the objects of files.
func (a *auditing) fromFiles(ctx context.Context, tell func(existing) error) error {
	a.owners = a.asked.Files.owners
	err := a.asked.Files.each(ctx, nil, func(d input.Document, problem *input.Error) error {
		switch {
		case problem != nil:
			a.addUnread(impact.ProblemOf(problem))
			return nil
		case isHeaderKind(d.Object.GroupVersionKind()):
			return nil
		}
		return tell(existing{Document: d})
	})
	a.leftOut = a.asked.Files.notes
	return err
}

// fromCluster tells the objects of a cluster, one kind after the other.
func (a *auditing) fromCluster(ctx context.Context, tell func(existing) error) error {
	cluster := a.options.Live
	resources, gaps, err := cluster.Resources(ctx)
	if err != nil {
		return err
	}
	for _, gap := range gaps {
		a.addGap(gap, a.within.names(gap.Group))
	}
	// The Jobs tell which CronJobs the pods belong to.
	slices.SortStableFunc(resources, func(x, y live.Resource) int { return listingPhase(x) - listingPhase(y) })
	for _, resource := range resources {
		if !a.within.has(resource.Resource.GroupResource()) {
			continue
		}
		redacted := resource.Kind.GroupKind() == schema.GroupKind{Kind: "Secret"}
		gap, err := cluster.Each(ctx, resource, func(object *unstructured.Unstructured) error {
			a.owners.add(object)
			return tell(existing{Document: input.Document{Object: object}, redacted: redacted})
		})
		if err != nil {
			return err
		}
		if gap != nil {
			a.addGap(*gap, true)
		}
	}
	return nil
}

// listingPhase returns the phase in which the objects of a resource are listed.
func listingPhase(r live.Resource) int {
	if r.Kind.GroupKind() == jobKind {
		return 0
	}
	return 1
}

// maxUnread is the number of parts that could not be read and that a report names.
const maxUnread = 1000

// addUnread records a part of the source that could not be read.
func (a *auditing) addUnread(p impact.Problem) {
	if len(a.unread) == maxUnread {
		a.more++
		return
	}
	a.unread = append(a.unread, p)
}

// addGap records what a cluster doesn't show. asked says that the audit is about it.
func (a *auditing) addGap(gap live.Gap, asked bool) {
	if !asked || a.candidate.reviewer.options.AllowIncomplete {
		a.gaps = append(a.gaps, gap)
		return
	}
	a.addUnread(impact.Problem{Message: gap.Message + " (--allow-incomplete audits the rest)"})
}

// problems returns what could not be read.
func (a *auditing) problems() []impact.Problem {
	if a.more == 0 {
		return a.unread
	}
	return append(a.unread, impact.Problem{Message: count.Of(a.more, "more part") + " of the files can't be read"})
}

// nothing says why there was nothing to judge.
func (a *auditing) nothing() string {
	if a.read == 0 {
		return "there are no objects"
	}
	return "the candidate can act on none of " + count.Of(a.read, "object")
}
