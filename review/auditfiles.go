// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/internal/review/live"
)

// AuditFiles are files with objects that are audited. They are read twice: once for what decides about
// others, which is a part of the state, and then object by object.
type AuditFiles struct {
	// Paths are files and directories, as `kubectl get -o yaml` or -o json writes them, or snapshots. Streams has what
	// "-" and pipes among them have sent.
	Paths   []string
	Streams map[string]io.ReadSeeker
	Exclude []string

	// state are the objects that decide about others. complete is true if a snapshot has them.
	state    []input.Document
	complete bool
	owners   owners
	notes    []string
}

// stateKinds are the kinds of the files' objects that are a part of the state, besides the params of policies
// and all kinds of admissionregistration.k8s.io.
var stateKinds = []schema.GroupKind{
	{Kind: "Namespace"}, {Kind: "ServiceAccount"}, {Kind: "LimitRange"}, {Kind: "ResourceQuota"},
	{Kind: "Node"},
	{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"},
	{Group: "scheduling.k8s.io", Kind: "PriorityClass"}, {Group: "node.k8s.io", Kind: "RuntimeClass"},
	{Group: "storage.k8s.io", Kind: "StorageClass"}, {Group: "networking.k8s.io", Kind: "IngressClass"},
	{Group: "networking.k8s.io", Kind: "ServiceCIDR"},
	{Group: "rbac.authorization.k8s.io", Kind: "Role"}, {Group: "rbac.authorization.k8s.io", Kind: "RoleBinding"},
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"},
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding"},
}

// Scan reads the files for the state that they have. The candidate's policies say which of their objects are
// params.
func (f *AuditFiles) Scan(ctx context.Context, candidate []input.Document) error {
	params := map[schema.GroupVersionKind]bool{}
	for _, d := range candidate {
		maps.Copy(params, live.ParamKinds([]*unstructured.Unstructured{d.Object}))
	}
	for {
		known := len(params)
		if err := f.scan(ctx, params); err != nil {
			return err
		}
		if len(params) == known {
			return nil
		}
		// Policies in the files have params, which may come before them.
	}
}

// scan reads the state once, and adds the kinds of params that its policies have.
func (f *AuditFiles) scan(ctx context.Context, params map[schema.GroupVersionKind]bool) error {
	f.state, f.owners = nil, owners{cronJobs: map[string]string{}}
	headers := map[string]bool{}
	isState := func(kind schema.GroupVersionKind) bool {
		return kind.Group == "admissionregistration.k8s.io" || slices.Contains(stateKinds, kind.GroupKind()) ||
			hasKind(params, kind.GroupKind())
	}
	wanted := func(kind schema.GroupVersionKind) bool {
		return isState(kind) || kind.GroupKind() == jobKind || isHeaderKind(kind)
	}
	return f.each(ctx, wanted, func(d input.Document, problem *input.Error) error {
		if problem != nil {
			return nil // it is counted when the objects are judged
		}
		kind := d.Object.GroupVersionKind()
		isHeader := isHeaderKind(kind)
		f.owners.add(d.Object)
		switch {
		case isHeader:
			f.complete = true
		case kind.Group == "admissionregistration.k8s.io":
			maps.Copy(params, live.ParamKinds([]*unstructured.Unstructured{d.Object}))
		case !isState(kind) || isSecret(d.Object):
			return nil
		}
		if !headers[d.Source.File] && !isHeader {
			// Like a snapshot, it may have what can't be stored here.
			header := &unstructured.Unstructured{Object: map[string]any{"version": ""}}
			header.SetAPIVersion(live.APIVersion)
			header.SetKind(live.Kind)
			f.state = append(f.state, input.Document{Source: d.Source, Object: header})
		}
		headers[d.Source.File] = true
		f.state = append(f.state, d)
		return nil
	})
}

func hasKind(kinds map[schema.GroupVersionKind]bool, kind schema.GroupKind) bool {
	for k := range kinds {
		if k.GroupKind() == kind {
			return true
		}
	}
	return false
}

// isHeaderKind reports whether a kind is that of the first document of a snapshot.
func isHeaderKind(kind schema.GroupVersionKind) bool {
	return kind == schema.FromAPIVersionAndKind(live.APIVersion, live.Kind)
}

// State returns the objects that decide about others, as Options.State has them.
func (f *AuditFiles) State() []input.Document { return f.state }

// IsComplete reports whether the files have a snapshot, which has all that decides.
func (f *AuditFiles) IsComplete() bool { return f.complete }

// each calls do with each object of the files, or with those of the kinds that are wanted.
func (f *AuditFiles) each(ctx context.Context, wanted func(schema.GroupVersionKind) bool,
	do func(input.Document, *input.Error) error) error {
	reader := &input.Reader{Exclude: f.Exclude, Wanted: wanted, Streams: map[string]io.Reader{}}
	for path, stream := range f.Streams {
		if _, err := stream.Seek(0, io.SeekStart); err != nil {
			return fmt.Errorf("reading %s again: %w", path, err)
		}
		reader.Streams[path] = stream
	}
	err := reader.Each(ctx, f.Paths, do)
	f.notes = reader.Notes()
	return err
}
